"""Rejected configurations, and a training run with overrides."""

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.training.compose import compose_config

from .. import fairseq_commands

PRETRAIN = fairseq_commands.CONFIGS / "pretrain"
BASE = PRETRAIN / "base.yaml"

# Overrides that make a base-size run small enough for a test.
SMALL = [
    "+model.encoder_layers=2",
    "+model.encoder_embed_dim=16",
    "+model.encoder_ffn_embed_dim=32",
    "+model.encoder_attention_heads=2",
    "common.cpu=true",
    "common.fp16=false",
    "dataset.num_workers=0",
    "dataset.batch_size=8",
    "optimization.update_freq=[1]",
    "optimization.max_update=2",
    "task.tokens_per_sample=16",
]


@pytest.mark.parametrize(
    "arguments, tokens",
    [
        (["nowhere.yaml"], ("nowhere.yaml",)),
        ([PRETRAIN / "run/n512.yaml"], ("n512-roberta.yaml",)),  # an existing file
        (["+run=n512"], ("run/n512",)),
        (["model.projected_dims=4"], ("model.projected_dims",)),
        (["other.yaml"], ("other.yaml",)),
    ],
    ids=str,
)
def test_error_messages_are_one_line(capsys, arguments, tokens):
    path = [] if str(arguments[0]).endswith(("nowhere.yaml", "n512.yaml")) else [BASE]
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, [*path, *arguments])])
    assert isinstance(end.value.code, str) and "\n" not in end.value.code
    assert all(token in end.value.code for token in tokens)


BOMB = "".join(f"a{i}: &a{i} [{', '.join(['x' if not i else f'*a{i - 1}'] * 10)}]\n" for i in range(9))


@pytest.mark.parametrize(
    "content, reason",
    [
        (BOMB, "100,000 values"),
        (f"model: {'[' * 2000}{']' * 2000}", "recursion"),
        (f"model: {'9' * 5000}", "4300 digits"),
        ("model: [", "not a configuration"),
        (b"model: \xff", "not a configuration"),
        ("model: &a [*a]", "recursion"),
    ],
    ids=["aliases", "depth", "digits", "syntax", "UTF-8", "cycle"],
)
def test_files_that_hydra_could_not_read(content, reason, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match="run.yaml") as error:
        compose_config(path)
    assert reason in str(error.value) and len(str(error.value)) < 700


def test_base_of_a_file_that_hydra_could_not_read(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/n.yaml").write_text("model: {}")
    (tmp_path / "base.yaml").write_text(BOMB)
    with pytest.raises(ValueError, match="base.yaml must have"):
        compose_config(tmp_path / "run/n.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n512-roberta", "n1024-k128-headwise"])
def test_fairseq_trains_a_run(mlm_data, tmp_path, name):
    """Two updates with the same overrides; RoBERTa too, which has no dataclass."""
    small = [*SMALL, *([] if "roberta" in name else ["model.projected_dim=8"])]
    losses = fairseq_commands.hydra_train(mlm_data, tmp_path, f"+run={name}", *small)
    assert len(losses) == 2 and all(5 < loss < 6.5 for loss in losses)
    weights = fairseq_commands.load(tmp_path)["model"]
    assert any("self_attn.E" in key for key in weights) == ("roberta" not in name)
