"""RoBERTa as a Linformer, and Linformers of another n."""

import argparse
from pathlib import Path

import pytest
import torch

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.to_linformer import resize, to_linformer
from fairseq_linformer.config import PROJECTIONS, SHARING, default_init
from fairseq_linformer.models.state_dicts import max_positions

from ..fairseq_commands import TINY, finetune, load, load_model

KINDS = {"post-norm": [], "pre-norm, untied": ["--encoder-normalize-before", "--untie-weights-roberta"]}
HEAD = "classification_heads.sentence_classification_head.dense.weight"


@pytest.fixture(params=KINDS)
def roberta(request, train_roberta):
    return train_roberta(*KINDS[request.param])


@pytest.fixture
def post_norm(train_roberta):
    return train_roberta()


@pytest.fixture
def linformer(post_norm):
    """A function from sharing, projection and k to a converted checkpoint of n = 16, with windows as in training."""

    def make(sharing, projection, k):
        options = dict(sharing=sharing, projection=projection, projection_init=default_init(projection, sharing))
        return to_linformer(read_checkpoint(post_norm), projected_dim=k, local_window=0, **options)

    return make


def build(checkpoint, folder):
    torch.save(checkpoint, folder / "new.pt")
    return load_model(folder / "new.pt")


def batch():
    tokens = torch.randint(4, 40, (3, 16), generator=torch.Generator().manual_seed(0))
    tokens[1, 9:] = 1
    return tokens


@pytest.mark.parametrize("local_window", [0, 5])
def test_k_equal_to_n_is_roberta(roberta, tmp_path, local_window):
    ours = build(to_linformer(read_checkpoint(roberta), projected_dim=16, local_window=local_window), tmp_path)
    real = batch().ne(1)
    torch.testing.assert_close(ours(batch())[0][real], load_model(roberta)(batch())[0][real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharing, k, exact", [("headwise", 8, 4), ("layerwise", 11, 5), ("none", "8/12,6", 3)])
def test_short_inputs_keep_their_features(roberta, tmp_path, sharing, k, exact):
    """Up to k / 2 tokens, of the smallest k; a longer input does not."""
    theirs = load_model(roberta).double()
    options = dict(projected_dim=k, sharing=sharing, local_window=0)
    ours = build(to_linformer(read_checkpoint(roberta), **options), tmp_path).double()
    for n, at_least, at_most in ((exact, 0, 1e-7), (exact - 1, 0, 1e-7), (13, 1e-6, 1)):
        tokens = batch()[:, :n]
        real = tokens.ne(1)
        difference = (ours(tokens)[0] - theirs(tokens)[0])[real].abs().max()
        assert at_least <= difference < at_most


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("sharing", SHARING)
def test_every_variant_keeps_all_weights(post_norm, tmp_path, sharing, projection):
    k = {"none": "8/4,5", "layerwise": 8}.get(sharing, "8,5")
    old = read_checkpoint(post_norm)
    new = to_linformer(old, projected_dim=k, sharing=sharing, projection=projection)
    weights = {key: value for key, value in old["model"].items() if not key.endswith(".version")}
    assert all(torch.equal(value, new["model"][key]) for key, value in weights.items())
    assert (new["cfg"]["model"]["projected_dim"], new["cfg"]["model"]["sharing"]) == (k, sharing)
    assert build(new, tmp_path).state_dict().keys() == new["model"].keys()


def test_conversion_to_another_n(roberta, tmp_path):
    """Position embeddings are tiled; the first half is the original."""
    model = build(to_linformer(read_checkpoint(roberta), projected_dim=32, max_positions=32), tmp_path)
    real = batch().ne(1)
    torch.testing.assert_close(model(batch())[0][real], load_model(roberta)(batch())[0][real], rtol=0, atol=1e-5)
    assert model(torch.randint(4, 40, (1, 32)))[0].shape[:2] == (1, 32)


@pytest.mark.slow
def test_old_checkpoints_such_as_roberta_base(roberta, tmp_path):
    """roberta.base has ``args``, calls its encoder ``decoder`` and keeps queries, keys and values in one matrix."""
    new = load(roberta.parent)
    state = {}
    for key, value in new["model"].items():
        old = key.replace("encoder.", "decoder.", 1).replace("layernorm_embedding", "emb_layer_norm")
        if ".q_proj." in key:
            parts = [new["model"][key.replace("q_proj", f"{name}_proj")] for name in "qkv"]
            state[old.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif ".k_proj." not in key and ".v_proj." not in key:
            state[old] = value
    args = argparse.Namespace(**{**vars(new["cfg"]["model"]), "task": "masked_lm", "data": str(tmp_path)})
    history = [{"num_updates": 3, "optimizer_name": "x", "lr_scheduler_state": {}}]
    old = {"args": args, "model": state, "extra_state": {"epoch": 1}, "optimizer_history": history}
    torch.save(old, tmp_path / "old.pt")
    converted = to_linformer(read_checkpoint(tmp_path / "old.pt"), projected_dim=8)
    expected = to_linformer(read_checkpoint(roberta), projected_dim=8)
    assert converted["model"].keys() == expected["model"].keys()
    assert all(torch.equal(value, expected["model"][key]) for key, value in converted["model"].items())
    assert converted["cfg"]["model"] == expected["cfg"]["model"]


SHAPES = [  # sharing, projection, k before, n and k after
    ("headwise", "linear", "8,4", 24, "12,6"),
    ("key-value", "linear", 8, 32, 16),
    ("layerwise", "linear", 8, 12, 6),
    ("none", "linear", "8/4,3", 32, "16/8,6"),
    ("none", "linear", "5/6,3", 12, "4,2"),
    ("none", "conv", 8, 32, 16),
    ("layerwise", "conv", 4, 12, 3),
    ("layerwise", "mean-pool", 8, 6, 3),
]


@pytest.mark.parametrize("sharing, projection, k, n, new_k", SHAPES)
def test_resizing(linformer, tmp_path, sharing, projection, k, n, new_k):
    new = resize(linformer(sharing, projection, k), n)
    options = new["cfg"]["model"]
    assert options["max_positions"] == n == max_positions(new["model"]) and options["projected_dim"] == new_k
    assert new["cfg"]["task"]["tokens_per_sample"] == n
    assert build(new, tmp_path).state_dict().keys() == new["model"].keys()


@pytest.mark.slow
def test_training_continues_from_a_resized_checkpoint(linformer, class_data, tmp_path):
    """And the finetuned one, whose head is kept, is resized; the original is unchanged."""
    torch.save(resize(linformer("headwise", "linear", "8,4"), 24), tmp_path / "new.pt")
    shape = ["--sharing", "headwise", "--projected-dim", "12,6", "--max-positions", 24]
    start = ["--finetune-from-model", tmp_path / "new.pt", "--lr", "0"]
    finetune(class_data, tmp_path / "task", *TINY, *shape, *start, updates=1)
    before, checkpoint = load(tmp_path / "task"), read_checkpoint(tmp_path / "task" / "checkpoint_last.pt")
    for key, value in load(tmp_path, "new.pt")["model"].items():
        if "lm_head" not in key:
            torch.testing.assert_close(before["model"][key], value, rtol=0, atol=1e-7, msg=key)
    new = resize(checkpoint, 32)
    assert all(torch.equal(value, checkpoint["model"][key]) for key, value in before["model"].items())
    assert "last_optimizer_state" not in new and "last_optimizer_state" in checkpoint
    assert torch.equal(new["model"][HEAD], before["model"][HEAD])


def test_lengthening_staggered_windows_nearly_preserves_features(linformer, tmp_path):
    old = linformer("headwise", "linear", 8)
    before, after = build(old, tmp_path), build(resize(old, 40), tmp_path)
    tokens = torch.randint(4, 40, (4, 16))
    expected = before(tokens, features_only=True)[0]
    assert 0 < (after(tokens, features_only=True)[0] - expected).abs().max() < 0.05 * expected.std()
    short = tokens[:, :13]
    torch.testing.assert_close(*(m(short, features_only=True)[0] for m in (after, before)), rtol=0, atol=1e-5)


def test_files_next_to_the_checkpoint_are_copied(linformer, mlm_data, tmp_path):
    old = tmp_path / "old.pt"
    torch.save(linformer("headwise", "linear", 8), old)
    for name in ("dict.txt", "tokenizer.json", "label/dict.txt", "manifest.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    convert(old, tmp_path / "new", max_positions=32)
    files = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert files == {"model.pt", "dict.txt", "tokenizer.json", "label/dict.txt", "manifest.json"}
    convert(old, tmp_path / "other", max_positions=32, dictionary=f"{mlm_data}/dict.txt")
    assert (tmp_path / "other" / "dict.txt").read_bytes() == Path(mlm_data, "dict.txt").read_bytes()


def test_random_projections_are_not_resized(linformer):
    with pytest.raises(ValueError, match="random projections cannot be resized"):
        resize(linformer("headwise", "random", 8), 32)


def test_a_roberta_that_was_trained_with_quantization_noise(post_norm):
    """Its weights are ordinary."""
    checkpoint = read_checkpoint(post_norm)
    checkpoint["cfg"]["model"] = argparse.Namespace(**vars(checkpoint["cfg"]["model"]) | {"quant_noise_pq": 0.1})
    assert to_linformer(checkpoint)["cfg"]["model"]["quant_noise_pq"] == 0


def test_a_head_with_spectral_normalization_is_named(post_norm):
    checkpoint = open_checkpoint(post_norm)
    checkpoint["model"]["classification_heads.topic.out_proj.weight_orig"] = torch.ones(2, 16)
    with pytest.raises(ValueError, match="head 'topic' must not have spectral normalization"):
        build_model(checkpoint, "topic")
