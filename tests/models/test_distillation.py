"""``linformer_distillation`` in stock fairseq: its loss, its teacher, and what it rejects."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf

from fairseq_linformer.checkpoints.files import read_checkpoint, write_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.to_linformer import to_linformer
from fairseq_linformer.files import sha256
from fairseq_linformer.models import distillation
from fairseq_linformer.models.dictionaries import read_masked_lm_dictionary
from fairseq_linformer.models.distillation import NEW_LM_HEAD, DistillationConfig, DistillationCriterion

from ..fairseq_commands import TINY, finetune, train
from .test_model import build as build_student

DISTILL = ["--criterion", "linformer_distillation"]
ROBERTA = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]


@pytest.fixture(scope="module")
def teacher(mlm_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    train(mlm_data, folder, model=ROBERTA, updates=3)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def start(teacher, tmp_path_factory):
    """A Linformer that was converted from the teacher."""
    path = tmp_path_factory.mktemp("start") / "start.pt"
    write_checkpoint(to_linformer(read_checkpoint(teacher), projected_dim=4, local_window=0), path)
    return path


def criterion(teacher, data, n=16, num_classes=None, skip_masking=False, **options):
    """The criterion of masked language modeling, or with a number of classes that of ``sentence_prediction``."""
    cfg = OmegaConf.merge(OmegaConf.structured(DistillationConfig), {"teacher": str(teacher), **options})
    if num_classes is None:
        task = MaskedLMTask.setup_task(
            MaskedLMConfig(data=str(data), tokens_per_sample=n, seed=1, skip_masking=skip_masking)
        )
    else:
        dictionary = read_masked_lm_dictionary(Path(data) / "dict.txt")
        task_cfg = SentencePredictionConfig(data=str(data), num_classes=num_classes, max_positions=n)
        task = SentencePredictionTask(task_cfg, dictionary, Dictionary())
    return DistillationCriterion(cfg, task)


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


@pytest.mark.parametrize("options", [dict(), dict(hidden_weight=0), dict(temperature=2.0, hidden_weight=0.3)])
def test_loss_is_the_weighted_sum(teacher, start, mlm_data, options):
    student, model = build(start).eval(), build(teacher).eval()
    batch, _ = sample()
    ours = criterion(teacher, mlm_data, logits_weight=0.7, task_weight=0.2, **options)
    loss, size, log = ours(student, batch)
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    masked, real = target.ne(1), tokens.ne(1)
    (a, x), (b, y) = (m(tokens, return_all_hiddens=True) for m in (student, model))
    assert size == int(masked.sum())
    T = options.get("temperature", 1.0)
    p, log_p, log_q = (b[masked] / T).softmax(-1), (b[masked] / T).log_softmax(-1), (a[masked] / T).log_softmax(-1)
    expected = 0.7 * T**2 * (p * (log_p - log_q)).sum(-1).mean() + 0.2 * F.cross_entropy(a[masked], target[masked])
    hidden = [
        (s - t).transpose(0, 1)[real].square().mean() for s, t in zip(x["inner_states"][1:], y["inner_states"][1:])
    ]
    assert len(hidden) == 2
    expected += options.get("hidden_weight", 1.0) * sum(hidden) / 2
    torch.testing.assert_close(loss, expected * size, rtol=1e-5, atol=1e-6)
    assert ("hidden_loss" in log) == (options.get("hidden_weight") != 0)


HEAD = "sentence_classification_head"


def add_head(model, classes, seed):
    """Register a head of random weights."""
    model.register_classification_head(HEAD, num_classes=classes)
    torch.manual_seed(seed)
    for parameter in model.classification_heads[HEAD].parameters():
        torch.nn.init.normal_(parameter)
    return model.eval()


@pytest.mark.parametrize("is_regression", [True, False])
def test_losses_of_sentences(teacher, start, mlm_data, tmp_path, is_regression):
    """Scores have squared errors, and classes divergences, cross entropies and an accuracy; written out by row."""
    classes = 1 if is_regression else 3
    student, model = add_head(build(start), classes, 1), add_head(build(teacher), classes, 2)
    write_checkpoint({**read_checkpoint(teacher), "model": model.state_dict()}, tmp_path / "teacher.pt")
    options = dict(hidden_weight=0, logits_weight=0.7, task_weight=0.2, regression_target=is_regression)
    batch, tokens = sample()
    batch["net_input"]["src_tokens"] = tokens
    batch["target"] = torch.tensor([0.5, -1.0, 4.0]) if is_regression else torch.tensor([[2], [0], [1]])
    loss, size, log = criterion(tmp_path / "teacher.pt", mlm_data, num_classes=classes, **options)(student, batch)
    ours, theirs = (m(tokens, classification_head_name=HEAD)[0].tolist() for m in (student, model))
    expected = {"logits_loss": 0.0, "task_loss": 0.0}
    for a, b, target in zip(ours, theirs, batch["target"].view(-1).tolist()):
        if is_regression:
            expected["logits_loss"] += (a[0] - b[0]) ** 2
            expected["task_loss"] += (a[0] - target) ** 2
        else:
            p, q = ([math.exp(x) / sum(map(math.exp, row)) for x in row] for row in (b, a))
            expected["logits_loss"] += sum(x * math.log(x / y) for x, y in zip(p, q))
            expected["task_loss"] -= math.log(q[target])
    assert size == 3 and min(expected.values()) > 0.1
    assert {name: float(log[name]) for name in expected} == pytest.approx(expected, rel=1e-4)
    assert float(loss) == pytest.approx(0.7 * expected["logits_loss"] + 0.2 * expected["task_loss"], rel=1e-4)
    correct = sum(row.index(max(row)) == int(target) for row, target in zip(ours, batch["target"].view(-1)))
    assert log.get("ncorrect") == (None if is_regression else correct)


def test_heads_need_the_same_classes(teacher, mlm_data, tmp_path):
    with pytest.raises(ValueError, match="must have the head 'sentence_classification_head' .* but it has no"):
        criterion(teacher, mlm_data, num_classes=3)
    criterion(teacher, mlm_data, num_classes=3, logits_weight=0)
    model = add_head(build(teacher), 2, 2)
    write_checkpoint({**read_checkpoint(teacher), "model": model.state_dict()}, tmp_path / "teacher.pt")
    with pytest.raises(ValueError, match="with 3 classes, but it has 2"):
        criterion(tmp_path / "teacher.pt", mlm_data, num_classes=3)


@pytest.mark.parametrize(
    "values, expected",
    [
        (dict(task_loss=(4.0, 2.0)), dict(task_loss=0.75)),
        (dict(task_loss=(4.0, 2.0), ncorrect=(1, 4)), dict(task_loss=0.75, accuracy=62.5)),
        (dict(task_loss=(4.0, 2.0), npredicted=(3, 5)), dict(task_loss=0.75, ppl=round(math.exp(0.75), 2))),
        (dict(hidden_loss=(1.0, 0.0), logits_loss=(0.0, 2.0)), dict(hidden_loss=0.125, logits_loss=0.25)),
    ],
    ids=["scores", "classes", "masked tokens", "without the task"],
)
def test_logs_of_workers_are_averaged(values, expected):
    """Over all sentences or tokens, in nats; a worker may have more than another."""
    sizes = dict(loss=(6.0, 10.0), sample_size=(3, 5), nsentences=(3, 5))
    logs = [{key: pair[i] for key, pair in (sizes | values).items()} for i in (0, 1)]
    with metrics.aggregate() as found:
        DistillationCriterion.reduce_metrics(logs)
    assert dict(found.get_smoothed_values()) == {"loss": 2.0, **expected}


def test_short_blocks(teacher, start, mlm_data, monkeypatch):
    """Unmasked text is read; training batches are split with ``short_seq_prob``, validation batches never."""
    monkeypatch.setattr(distillation, "SHORTEST", 4)
    student, model = build(start).eval(), build(teacher).eval()
    batch, text = sample()
    ours = criterion(teacher, mlm_data, unmasked=True, logits_weight=0, task_weight=0, short_seq_prob=0.6)

    def expected(tokens):
        x, y = (m(tokens, features_only=True, return_all_hiddens=True)[1]["inner_states"][1:] for m in (student, model))
        real = tokens.ne(1)
        return sum((s - t).transpose(0, 1)[real].square().mean() for s, t in zip(x, y)) / 2

    lengths = set()
    for seed in range(20):
        masked = (torch.rand(text.shape, generator=torch.Generator().manual_seed(seed)) < 0.3) & text.gt(2)
        batch["target"] = torch.where(masked, text, 1)
        length = distillation.draw_length(masked, 0.6)
        lengths.add(length)
        tokens = text if length == 16 else distillation.split_blocks(text, length, 0, 2, 1)
        loss, size, _ = ours.train()(student, batch)
        torch.testing.assert_close(loss, expected(tokens) * size, rtol=1e-5, atol=1e-6)
        loss, size, _ = ours.eval()(student, batch)
        torch.testing.assert_close(loss, expected(text) * size, rtol=1e-5, atol=1e-6)
    assert lengths == {16, 8, 4}


def test_batch_without_masked_tokens_learns_hidden_states_only(teacher, start, mlm_data):
    """It logs the same terms as other batches, and every parameter has a gradient, so workers can reduce both."""
    (batch, _), (other, _) = sample(), sample()
    batch["target"] = torch.ones_like(batch["target"])
    ours, student = criterion(teacher, mlm_data), build(start).eval()
    loss, size, log = ours(student, batch)
    assert size == 1 and log["npredicted"] == log["logits_loss"] == log["task_loss"] == 0
    assert log.keys() == ours(student, other)[2].keys()
    torch.testing.assert_close(loss.detach(), log["hidden_loss"])
    loss.backward()
    assert all(p.grad is not None for p in student.encoder.lm_head.parameters())
    loss, _, _ = criterion(teacher, mlm_data, hidden_weight=0)(build(start).eval(), batch)
    loss.backward()
    assert float(loss.detach()) == 0


def test_teacher_without_logits_computes_features_only(teacher, start, mlm_data, monkeypatch):
    ours, calls = criterion(teacher, mlm_data, logits_weight=0), []
    compute = ours.teacher._model.forward
    monkeypatch.setattr(ours.teacher._model, "forward", lambda *a, **o: calls.append(o) or compute(*a, **o))
    ours(build(start).eval(), sample()[0])
    assert calls == [{"features_only": True, "return_all_hiddens": True}]


@pytest.mark.slow
def test_teacher_is_neither_trained_nor_stored(teacher, start, mlm_data, tmp_path):
    before = sha256(teacher)
    options = ["--unmasked", "--logits-weight", 0, "--task-weight", 0, "--dropout", 0, "--attention-dropout", 0]
    options += ["--teacher", teacher, "--finetune-from-model", start, "--projected-dim", 4, "--lr", 0.001]
    losses = train(mlm_data, tmp_path, *DISTILL, *options, updates=30)
    assert sum(losses[-3:]) < sum(losses[:3]) and sha256(teacher) == before
    saved = read_checkpoint(tmp_path / "checkpoint_last.pt")
    assert saved["criterion"] is None and saved["task_state"]["teacher_sha256"] == before
    assert saved["model"].keys() == read_checkpoint(start)["model"].keys()


def test_another_width_is_distilled_by_logits(teacher, mlm_data):
    student = build_student(encoder_embed_dim=24, encoder_attention_heads=2)
    assert criterion(teacher, mlm_data).choose_weights(student) == {"hidden": 0, "logits": 1, "task": 1}
    shapes = r"student has 2 layers of width 24, the teacher 2 of width 16\), got"
    with pytest.raises(ValueError, match=f"hidden_weight must be 0 .*{shapes} 1"):
        criterion(teacher, mlm_data, hidden_weight=1).choose_weights(student)
    with pytest.raises(ValueError, match=f"hidden_weight, logits_weight .* must be above 0 .*{shapes} 0"):
        criterion(teacher, mlm_data, unmasked=True, logits_weight=0, task_weight=0).choose_weights(student)


@pytest.mark.slow
def test_sentence_prediction(teacher, mlm_data, tmp_path, class_data):
    finetune(class_data, tmp_path / "t", *ROBERTA, "--finetune-from-model", teacher, updates=3)
    new = tmp_path / "t" / "checkpoint_last.pt"
    (tmp_path / "start").mkdir()
    write_checkpoint(
        to_linformer(read_checkpoint(new), projected_dim=4, local_window=0), tmp_path / "start" / "start.pt"
    )
    options = [*TINY, "--projected-dim", "4", "--finetune-from-model", tmp_path / "start" / "start.pt"]
    finetune(class_data, tmp_path / "s", *options, *DISTILL, "--teacher", new, updates=4)
    saved = read_checkpoint(tmp_path / "s" / "checkpoint_last.pt")
    assert saved["task_state"]["teacher_sha256"] == sha256(new)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(hidden_weight=-1), "hidden_weight must be at least 0, got -1"),
        (dict(logits_weight=math.inf), "logits_weight must be finite, got inf"),
        (dict(temperature=0), "temperature must be at least 0.01, got 0"),
        (dict(unmasked=True), "unmasked needs masked_lm"),
        (dict(short_seq_prob=1), "short_seq_prob must be at least 0 and below 1, got 1"),
        (dict(short_seq_prob=0.5), "short_seq_prob needs unmasked"),
        (dict(n=32), "at least n = 32 positions, got 16"),
        (
            dict(unmasked=True, logits_weight=0, task_weight=0, short_seq_prob=0.5, skip_masking=True),
            "and not skip_masking",
        ),
    ],
)
def test_rejected_options(teacher, mlm_data, options, message):
    with pytest.raises(ValueError, match=message):
        criterion(teacher, mlm_data, **options)


def test_other_tasks_are_rejected(teacher):
    task = SimpleNamespace(target_dictionary=None)
    with pytest.raises(ValueError, match="task must be masked_lm or sentence_prediction, got SimpleNamespace"):
        DistillationCriterion(OmegaConf.structured(DistillationConfig(teacher=str(teacher))), task)


def test_untrained_head_of_the_teacher_is_not_distilled(teacher, mlm_data, tmp_path):
    write_checkpoint(
        {**read_checkpoint(teacher), "provenance": {"imported": {"lm_head": NEW_LM_HEAD}}}, tmp_path / "t.pt"
    )
    with pytest.raises(ValueError, match="logits_weight must be 0, because the masked LM head of .*t.pt is untrained"):
        criterion(tmp_path / "t.pt", mlm_data)
    criterion(tmp_path / "t.pt", mlm_data, logits_weight=0)


def test_teacher_that_does_not_fit_is_rejected(teacher, mlm_data, tmp_path):
    (tmp_path / "dict.txt").write_text("a 1\nb 1\n")
    with pytest.raises(ValueError, match="must be that of the teacher .* got 7"):
        criterion(teacher, tmp_path)
