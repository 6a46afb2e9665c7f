"""Runs read from configurations, rejected configurations, and a training run with the same overrides."""

import pytest

from fairseq_linformer.benchmark.formulas import count_parameters
from fairseq_linformer.cli import main
from fairseq_linformer.models.shapes import OPTION_BUFFERS
from fairseq_linformer.training.compose import compose_config
from fairseq_linformer.training.planned_run import count_built_parameters, read_run

from .. import fairseq_commands
from .runs import BASE, PRETRAIN

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


def test_numbers_of_a_run():
    run = read_run(PRETRAIN / "run/n4096-k256-headwise.yaml", ["+gpus=x64"])
    assert (run.gpus, run.update_freq, run.sequences, run.tokens_per_update) == (64, 2, 2, 1_048_576)
    assert (run.updates, run.warmup, run.precision, run.checkpoint_activations) == (250_000, 10_000, "fp16", False)
    assert run.num_masked == 615  # 15 % of 4,096 is 614.4
    assert [run.accepts_batch(sequences) for sequences in (7, 8, 12, 16)] == [True, True, False, True]


@pytest.mark.parametrize(
    "overrides, precision",
    [
        (["common.fp16=false"], "fp32"),
        (["common.fp16=false", "common.bf16=true"], "bf16"),
        (["common.memory_efficient_bf16=true"], "memory-efficient bf16"),
    ],
)
def test_precision(overrides, precision):
    assert read_run(BASE, overrides).precision == precision


def test_max_tokens_limits_a_micro_batch():
    assert read_run(BASE, ["dataset.max_tokens=4100"]).sequences == 8


@pytest.mark.slow
def test_roberta_has_the_parameters_that_fairseq_builds():
    path = PRETRAIN / "run/n1024-roberta.yaml"
    assert (
        count_built_parameters(compose_config(path)) == count_parameters(read_run(path).model).trainable == 125_089_881
    )


@pytest.mark.parametrize(
    "arguments, tokens",
    [
        (["nowhere.yaml"], ("nowhere.yaml",)),
        ([PRETRAIN / "run/n512.yaml"], ("n512-roberta.yaml",)),  # an existing file
        (["+run=n512"], ("run/n512",)),
        (["model.projected_dims=4"], ("model.projected_dims",)),
        (["other.yaml"], ("other.yaml",)),
        (["--vocab-size", 5], ("--vocab-size", "5")),
        (["model.projected_dim=600"], ("projected_dim", "600")),
        (["model._name=bart_base"], ("bart_base",)),
        (["+model.quant_noise_pq=0.1"], ("model.quant_noise_pq", "0.1")),
        (["+model.max_positions=256"], ("max_positions", "256")),
        (["+run=n512-roberta", "+model.max_positions=256"], ("model.max_positions", "256")),
        (["+run=n512-roberta", "+model.activation_fn=tanh"], ("model.activation_fn", "tanh")),
        (["optimizer._name=sgd"], ("optimizer._name", "sgd")),
        (["distributed_training.ddp_backend=slowmo"], ("distributed_training.ddp_backend", "slowmo")),
        (["distributed_training.zero_sharding=os"], ("distributed_training.zero_sharding", "os")),
        (["ema.store_ema=true"], ("ema.store_ema",)),
        (["common.amp=true"], ("common.amp",)),
        (["optimization.update_freq=[1,2]"], ("optimization.update_freq", "[1, 2]")),
        (["optimization.max_update=0"], ("optimization.max_update", "0")),
        (["+task.mask_prob=1"], ("task.mask_prob", "1")),
        (["dataset.batch_size=0"], ("dataset.batch_size", "0")),
        (["dataset.batch_size=12"], ("dataset.batch_size", "12")),
        (["--gpu", "v200"], ("v200",)),
        (["--gpus", 96], ("gpus", "96")),
        (["+run=tiny", "--check"], ("+run=tiny",)),
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


def test_vocab_size_is_that_of_the_data(mlm_data):
    run = read_run(PRETRAIN / "run/tiny.yaml", [f"task.data={mlm_data}"])
    assert run.model.shape.vocab_size == fairseq_commands.WORDS + 5  # with four special symbols and <mask>


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n512-roberta", "n1024-k128-headwise"])
def test_fairseq_trains_a_run(mlm_data, tmp_path, name):
    """Two updates with the same overrides; RoBERTa too, which has no dataclass."""
    small = [*SMALL, *([] if "roberta" in name else ["model.projected_dim=8"])]
    losses = fairseq_commands.hydra_train(mlm_data, tmp_path, f"+run={name}", *small)
    assert len(losses) == 2 and all(5 < loss < 6.5 for loss in losses)
    weights = fairseq_commands.load(tmp_path)["model"]
    assert any("self_attn.E" in key for key in weights) == ("roberta" not in name)
    run = read_run(PRETRAIN / f"run/{name}.yaml", [f"task.data={mlm_data}", *small])
    tied = weights["encoder.lm_head.weight"].numel()
    others = (".version", "start", "scale", "windows", "window_options", *OPTION_BUFFERS)
    trainable = sum(value.numel() for key, value in weights.items() if not key.endswith(others))
    assert count_parameters(run.model).trainable == trainable - tied
