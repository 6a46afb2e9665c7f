"""``linformer_distillation`` in stock fairseq: its loss, its teacher, blocks of several lengths, what it rejects."""

from collections import Counter

import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from fairseq_linformer.checkpoints.files import read_checkpoint, write_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.to_linformer import to_linformer
from fairseq_linformer.files import sha256
from fairseq_linformer.models import distillation
from fairseq_linformer.models.distillation import DistillationConfig, DistillationCriterion, draw_length, split_blocks

from ..fairseq_commands import train
from .test_model import build as build_student

DISTILL = ["--criterion", "linformer_distillation"]
BOS, PAD, EOS = 0, 1, 2


@pytest.fixture(scope="module")
def teacher(train_roberta):
    return train_roberta()


@pytest.fixture(scope="module")
def start(teacher, tmp_path_factory):
    """A Linformer that was converted from the teacher."""
    path = tmp_path_factory.mktemp("start") / "start.pt"
    write_checkpoint(to_linformer(read_checkpoint(teacher), projected_dim=4, local_window=0), path)
    return path


def criterion(teacher, data, n=16, skip_masking=False, **options):
    cfg = OmegaConf.merge(OmegaConf.structured(DistillationConfig), {"teacher": str(teacher), **options})
    task_cfg = MaskedLMConfig(data=str(data), tokens_per_sample=n, seed=1, skip_masking=skip_masking)
    return DistillationCriterion(cfg, MaskedLMTask.setup_task(task_cfg))


def sample():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, 40, (3, 16), generator=generator)
    tokens[:, 0], tokens[1, 9:] = 0, 1
    target = torch.ones_like(tokens)
    masked = (torch.rand(tokens.shape, generator=generator) < 0.3) & tokens.gt(1)
    target[masked] = tokens[masked]
    inputs = tokens.clone()
    inputs[masked] = 43
    return {"net_input": {"src_tokens": inputs}, "target": target, "ntokens": 48, "nsentences": 3}, tokens


def build(path):
    return build_model(open_checkpoint(path))


def test_logs_of_workers_are_averaged():
    """Over all masked tokens; a worker may have more than another."""
    with metrics.aggregate() as found:
        DistillationCriterion.reduce_metrics([{"loss": 6.0, "sample_size": 3}, {"loss": 10.0, "sample_size": 5}])
    assert dict(found.get_smoothed_values()) == {"loss": 2.0}


def test_short_blocks(teacher, start, mlm_data, monkeypatch):
    """The loss is that of hidden states, of text without masks; training batches are split with ``short_seq_prob``,
    validation batches never."""
    monkeypatch.setattr(distillation, "SHORTEST", 4)
    student, model = build(start).eval(), build(teacher).eval()
    batch, text = sample()
    ours = criterion(teacher, mlm_data, short_seq_prob=0.6)

    def expected(tokens):
        x, y = (m(tokens, features_only=True, return_all_hiddens=True)[1]["inner_states"][1:] for m in (student, model))
        real = tokens.ne(1)
        return sum((s - t).transpose(0, 1)[real].square().mean() for s, t in zip(x, y)) / 2

    lengths = set()
    for seed in range(20):
        masked = (torch.rand(text.shape, generator=torch.Generator().manual_seed(seed)) < 0.3) & text.gt(2)
        batch["target"] = torch.where(masked, text, 1)
        length = draw_length(masked, 0.6)
        lengths.add(length)
        tokens = text if length == 16 else split_blocks(text, length, 0, 2, 1)
        loss, size, _ = ours.train()(student, batch)
        torch.testing.assert_close(loss, expected(tokens) * size, rtol=1e-5, atol=1e-6)
        loss, size, _ = ours.eval()(student, batch)
        torch.testing.assert_close(loss, expected(text) * size, rtol=1e-5, atol=1e-6)
    assert lengths == {16, 8, 4}


def test_batch_without_masked_tokens(teacher, start, mlm_data):
    """It counts as one token, and every parameter of the encoder has a gradient, so that workers can reduce it."""
    batch, _ = sample()
    batch["target"] = torch.ones_like(batch["target"])
    student = build(start).eval()
    loss, size, log = criterion(teacher, mlm_data)(student, batch)
    assert size == 1 and float(log["loss"]) > 0
    loss.backward()
    assert all(p.grad is not None for p in student.encoder.sentence_encoder.parameters())


@pytest.mark.slow
def test_teacher_is_neither_trained_nor_stored(teacher, start, mlm_data, tmp_path):
    before = sha256(teacher)
    options = ["--dropout", 0, "--attention-dropout", 0, "--teacher", teacher, "--finetune-from-model", start]
    options += ["--projected-dim", 4, "--lr", 0.001]
    losses = train(mlm_data, tmp_path, *DISTILL, *options, updates=30)
    assert sum(losses[-3:]) < sum(losses[:3]) and sha256(teacher) == before
    saved = read_checkpoint(tmp_path / "checkpoint_last.pt")
    assert saved["criterion"] is None and saved["task_state"]["teacher_sha256"] == before
    assert saved["model"].keys() == read_checkpoint(start)["model"].keys()


def test_another_shape_is_rejected(teacher, mlm_data):
    student = build_student(encoder_embed_dim=24, encoder_attention_heads=2)
    with pytest.raises(ValueError, match="must have 2 layers of width 16, as the teacher, got 2 of width 24"):
        criterion(teacher, mlm_data)(student, sample()[0])
    with pytest.raises(ValueError, match="encoder_layerdrop must be 0 in distillation, got 0.5"):
        criterion(teacher, mlm_data)(build_student(encoder_layerdrop=0.5), sample()[0])


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(short_seq_prob=1), "short_seq_prob must be at least 0 and below 1, got 1"),
        (dict(short_seq_prob=0.5, skip_masking=True), "short_seq_prob must be 0 with skip_masking, got 0.5"),
        (dict(n=32), "at least n = 32 positions, got 16"),
    ],
)
def test_rejected_options(teacher, mlm_data, options, message):
    with pytest.raises(ValueError, match=message):
        criterion(teacher, mlm_data, **options)


def test_lengths_depend_on_the_masks_alone():
    generator = torch.Generator().manual_seed(0)
    batches = [torch.rand(2, 128, generator=generator) < 0.15 for _ in range(2000)]
    drawn = [draw_length(masked, 0.75) for masked in batches]
    assert drawn == [draw_length(masked, 0.75) for masked in batches]
    counts = Counter(drawn)
    assert counts.keys() == {128, 64, 32, 16}
    assert all(count == pytest.approx(500, abs=100) for count in counts.values())
    assert {draw_length(masked, 0.0) for masked in batches} == {128}
    assert {draw_length(masked[:, :31], 0.75) for masked in batches} == {31}
    assert {draw_length(masked[:, :99], 0.75) for masked in batches} == {99, 50, 25}


@pytest.mark.parametrize("n, length", [(64, 16), (64, 32), (50, 12)])
def test_split_blocks(n, length):
    """Blocks have no padding but at the end, and all tokens but those that bos and eos replace."""
    torch.manual_seed(0)
    real = torch.tensor([n, n - 5, 3])
    tokens = torch.randint(5, 50, (3, n)).masked_fill(torch.arange(n) >= real.unsqueeze(1), PAD)
    tokens[:, 0] = BOS
    blocks = split_blocks(tokens, length, BOS, EOS, PAD)
    assert (blocks[:, 0] == BOS).all() and blocks.ne(PAD).sum() == real.sum()
    lengths = blocks.ne(PAD).sum(1)
    for block, size in zip(blocks, lengths):
        assert (block[:size] != PAD).all() and (size == 1 or block[size - 1] == EOS)
    kept = [token for block, size in zip(blocks, lengths) for token in block[1 : size - 1].tolist()]
    expected = [
        token
        for row, size in zip(tokens.tolist(), real.tolist())
        for start in range(0, size, length)
        for token in row[start + 1 : min(start + length, size) - 1]
    ]
    assert kept == expected
