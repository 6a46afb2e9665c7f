"""Resizing of checkpoints to another n or k."""

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.resize import resize
from fairseq_linformer.models.shapes import max_positions

from ..fairseq_commands import TINY, finetune, load, train

SHAPES = [  # sharing, projection, k before, n and k after
    ("headwise", "linear", "8,4", 24, "10,7"),
    ("key-value", "linear", 8, 32, None),
    ("layerwise", "linear", 8, 16, 4),
    ("none", "linear", 8, 12, "6/3,2"),
    ("none", "linear", "8/4,3", 32, None),
    ("none", "linear", "8/4,3", 20, 5),
    ("none", "conv", 8, 32, 5),
    ("layerwise", "conv", 4, 12, None),
    ("none", "max-pool", 8, 32, "5/4"),
    ("layerwise", "mean-pool", 8, 7, None),
]


@pytest.fixture(scope="module")
def train_checkpoint(mlm_data, tmp_path_factory):
    """Train a checkpoint of n = 16 for a few updates, once per variant."""
    made = {}

    def make(sharing, projection, k):
        key = (sharing, projection, k)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("trained")
            train(
                mlm_data, made[key], "--sharing", sharing, "--projection", projection, "--projected-dim", k, updates=3
            )
        return made[key] / "checkpoint_last.pt"

    return make


def model_of(path):
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("sharing, projection, k, n, new_k", SHAPES)
def test_resizing_explicitly_and_on_the_fly_are_equal(
    train_checkpoint, class_data, tmp_path, sharing, projection, k, n, new_k
):
    old = train_checkpoint(sharing, projection, k)
    new = resize(read_checkpoint(old), n, new_k)
    options = new["cfg"]["model"]
    assert options["max_positions"] == n == max_positions(new["model"])
    torch.save(new, tmp_path / "new.pt")
    model = model_of(tmp_path / "new.pt")
    assert max_positions(model.state_dict()) == n

    # On the fly, by finetuning a classifier with learning rate 0.
    finetune(
        class_data,
        tmp_path / "task",
        "--max-positions",
        n,
        *TINY,
        "--sharing",
        sharing,
        "--projection",
        projection,
        "--projected-dim",
        options["projected_dim"],
        "--resize-checkpoint",
        "--finetune-from-model",
        old,
        "--lr",
        "0",
        updates=1,
    )
    finetuned = model_of(tmp_path / "task" / "checkpoint_last.pt")
    for key, value in model.state_dict().items():
        torch.testing.assert_close(finetuned.state_dict()[key], value, rtol=0, atol=1e-7, msg=key)


@pytest.mark.slow
def test_training_continues(train_checkpoint, mlm_data, tmp_path):
    torch.save(resize(read_checkpoint(train_checkpoint("headwise", "linear", "8,4")), 24, "10,7"), tmp_path / "new.pt")
    train(
        mlm_data,
        tmp_path / "more",
        "--projected-dim",
        "10,7",
        "--tokens-per-sample",
        24,
        "--finetune-from-model",
        tmp_path / "new.pt",
        updates=1,
    )


@pytest.mark.slow
def test_lengthening_staggered_windows_nearly_preserves_features(train_checkpoint, tmp_path):
    old = train_checkpoint("headwise", "linear", 8)
    torch.save(resize(read_checkpoint(old), 40), tmp_path / "new.pt")
    tokens = torch.randint(4, 40, (4, 16))
    before, after = (model_of(path)(tokens, features_only=True)[0] for path in (old, tmp_path / "new.pt"))
    assert 0 < (after - before).abs().max() < 0.05 * before.std()
    shorter = model_of(tmp_path / "new.pt")(tokens[:, :13], features_only=True)[0]
    torch.testing.assert_close(shorter, model_of(old)(tokens[:, :13], features_only=True)[0], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["none", "layerwise"])
def test_lengthening_preserves_features_of_the_first_positions(train_checkpoint, mlm_data, tmp_path, sharing):
    """Up to rounding, for inputs that do not reach the last window, which starts at position 13."""
    train(mlm_data, tmp_path, "--sharing", sharing, "--projection-init", "average", updates=2)
    old = tmp_path / "checkpoint_last.pt"
    torch.save(resize(read_checkpoint(old), 40), tmp_path / "new.pt")
    tokens = torch.randint(4, 40, (2, 13))
    tokens[1, 10:] = 1
    real = tokens.ne(1)
    torch.testing.assert_close(
        model_of(tmp_path / "new.pt")(tokens)[0][real], model_of(old)(tokens)[0][real], rtol=0, atol=1e-5
    )


@pytest.mark.slow
def test_original_and_heads_are_unchanged(class_data, train_checkpoint, tmp_path):
    """Also for a finetuned checkpoint, whose head is kept."""
    finetune(class_data, tmp_path, *TINY, "--finetune-from-model", train_checkpoint("headwise", "linear", 8))
    before, checkpoint = load(tmp_path), read_checkpoint(tmp_path / "checkpoint_last.pt")
    new = resize(checkpoint, 32, 4)
    assert all(torch.equal(value, checkpoint["model"][key]) for key, value in before["model"].items())
    assert "last_optimizer_state" not in new and "last_optimizer_state" in checkpoint
    head = "classification_heads.sentence_classification_head.dense.weight"
    assert torch.equal(new["model"][head], before["model"][head])


def test_error_without_the_option_names_the_difference(train_checkpoint, mlm_data, tmp_path):
    with pytest.raises(ValueError, match="max_positions 16, this model has 32; .* --resize-checkpoint"):
        train(
            mlm_data,
            tmp_path,
            "--tokens-per-sample",
            "32",
            "--finetune-from-model",
            train_checkpoint("headwise", "linear", 8),
            updates=1,
        )


@pytest.mark.slow
def test_sharing_is_not_resized(train_checkpoint, mlm_data, tmp_path):
    options = ["--sharing", "none", "--projected-dim", "8/4,8", "--resize-checkpoint", "--finetune-from-model"]
    with pytest.raises(ValueError, match="sharing headwise, this model has none"):
        train(mlm_data, tmp_path, *options, train_checkpoint("headwise", "linear", 8), updates=1)


@pytest.mark.parametrize(
    "sharing, projection, n, k, named",
    [
        ("headwise", "linear", None, None, "max_positions"),
        ("headwise", "linear", 0, None, "max_positions .* got 0"),
        ("headwise", "linear", None, 17, "projected_dim .* got 17"),
        ("headwise", "linear", None, "4/8", "projected_dim .* '4/8"),
        ("headwise", "linear", None, "4x3", "projected_dim .* '4x3'"),
        ("layerwise", "linear", None, "4,8", "projected_dim .* '4,8'"),
        ("headwise", "random", 32, None, "learned projections .*random"),
    ],
)
def test_rejections(train_checkpoint, sharing, projection, n, k, named):
    with pytest.raises(ValueError, match=named):
        resize(read_checkpoint(train_checkpoint(sharing, projection, 8)), n, k)
