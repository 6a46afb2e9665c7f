"""configs/pretrain: the paper's runs, composed, checked, and trained a little."""

import shutil

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.planning.check import check, check_run
from fairseq_linformer.planning.configs import VOCABULARY, compose_config, count_built, read_run, run_of
from fairseq_linformer.planning.gpus import GPUS

from .. import stock

PRETRAIN = stock.CONFIGS / "pretrain"
# A base-size run as a test can train it; what makes it that run stays.
SMALL = ["+model.encoder_layers=2", "+model.encoder_embed_dim=16", "+model.encoder_ffn_embed_dim=32", "+model.encoder_attention_heads=2",
         "common.cpu=true", "common.fp16=false", "dataset.num_workers=0", "dataset.batch_size=8", "optimization.update_freq=[1]",
         "optimization.max_update=2", "task.tokens_per_sample=16"]  # fmt: skip
TABLE_2 = [f"n{n}-k{k}-{sharing}" for n, k in ((512, 128), (512, 256), (1024, 256)) for sharing in ("headwise", "key-value", "layerwise")]
FIGURE_3 = [
    "n512-roberta", "n512-k64-headwise", "n512-k128-headwise", "n512-k256-headwise",  # (a)
    "n1024-roberta", "n1024-k128-headwise", "n1024-k256-headwise", "n1024-k512-headwise",  # (b)
    "n512-k256-headwise", "n512-k256-key-value", "n512-k256-layerwise",  # (c)
    "n512-k256-headwise", "n1024-k256-headwise", "n2048-k256-headwise", "n4096-k256-headwise",  # (d)
]  # fmt: skip


def test_every_run_of_figure_3_and_table_2_is_there_and_no_other():
    assert {path.stem for path in PRETRAIN.glob("run/*.yaml")} == {*TABLE_2, *FIGURE_3, "tiny"}


def test_overrides_are_small():
    for path in PRETRAIN.glob("*/*.yaml"):
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) <= 9 or path.stem == "tiny", path


@pytest.mark.parametrize("path, n, k, sharing", [
    ("base", 512, 256, "layerwise"), ("run/n512-k128-key-value", 512, 128, "key-value"), ("run/n4096-k256-headwise", 4096, 256, "headwise"),
])  # fmt: skip
def test_a_run_in_numbers(path, n, k, sharing):
    run = read_run(PRETRAIN / f"{path}.yaml", ["+gpus=x64"])
    assert (run.positions, run.model.shape.projected_dim, run.model.shape.sharing, run.model.shape.max_positions) == (n, k, sharing, n)
    assert (run.gpus, run.update_freq, run.sequences, run.tokens_of_update) == (64, 2, 8192 // n, 1_048_576)
    assert (run.updates, run.warmup, run.precision, run.checkpointed, run.masked) == (250_000, 10_000, "fp16", False, -(-15 * n // 100))


@pytest.mark.slow
def test_roberta_is_fairseqs_own():
    run = read_run(PRETRAIN / "run/n1024-roberta.yaml")
    assert not run.model.linear and run.model.shape.layers == 12 and run.positions == 1024
    assert count_built(compose_config(PRETRAIN / "run/n1024-roberta.yaml")) == 125_089_881


@pytest.mark.slow
def test_all_agree():
    table = check(PRETRAIN / "base.yaml", GPUS["v100-16gb"], None, 0.3, None).splitlines()
    assert [line.split()[0] for line in table] == ["run", "base", *sorted({*TABLE_2, *FIGURE_3}, key=_order), "tiny", "all"]
    assert table[-1].startswith("all 18 agree")


def _order(name):
    n, _, rest = name.partition("-")
    k = rest.partition("-")[0]
    return int(n[1:]), [int(k[1:])] if k[1:].isdigit() else [], name


@pytest.mark.slow
@pytest.mark.parametrize("name, text, said", [
    ("n512-k64-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n", "k is 128, and sharing headwise"),
    ("n1024-k128-headwise", "model:\n  projected_dim: 128\n  sharing: headwise\n", "n is 512 in samples and 512 in the model"),
    ("n512-roberta", "model:\n  projected_dim: 128\n", "the model is linformer_roberta_base"),
    ("n512-k256-layerwise", "dataset:\n  batch_size: 32\n", "tokens_of_update is 2,097,152, and in the base 1,048,576"),
    ("n512-k256-layerwise", "optimization:\n  max_update: 1000\n", "warmup_updates is 10,000, and max_update 1,000; it must be less"),
    ("mine", "optimization:\n  update_freq: [64]\n", "with +gpus=x8 an update has 1,048,576 tokens, without 524,288"),
])  # fmt: skip
def test_what_does_not_agree_is_found(tmp_path, name, text, said):
    folder = tmp_path / "pretrain"
    (folder / "run").mkdir(parents=True)
    (folder / "gpus").mkdir()
    shutil.copy(PRETRAIN / "base.yaml", folder)
    shutil.copy(PRETRAIN / "gpus/x8.yaml", folder / "gpus")
    path = folder / "run" / f"{name}.yaml"
    path.write_text(f"# @package _global_\n{text}")
    reference = run_of(compose_config(folder / "base.yaml"), "base", VOCABULARY)
    assert f"{name}: {said}" in check_run(path, folder / "base.yaml", reference)[1]


@pytest.mark.slow
def test_gpus_that_change_an_update_fail_the_check(tmp_path):
    (tmp_path / "gpus").mkdir()
    shutil.copy(PRETRAIN / "base.yaml", tmp_path)
    text = (PRETRAIN / "gpus/x8.yaml").read_text()
    (tmp_path / "gpus/x8.yaml").write_text(text.replace("[16]", "[8]"))
    with pytest.raises(ValueError, match="^1 of what .* does not agree:\nwith .gpus=x8 an update has 524,288 tokens, without 1,048,576$"):
        check(tmp_path / "base.yaml", GPUS["v100-16gb"], None, 0.3, None)


def refused(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as end:
        main(["plan", *map(str, arguments)])
    assert isinstance(end.value.code, str) and "\n" not in end.value.code
    return end.value.code.removeprefix("fairseq-linformer: ")


@pytest.mark.parametrize("arguments, said", [
    (["nowhere.yaml"], "there is no configuration nowhere.yaml; "),
    ([PRETRAIN / "run/n512.yaml"], "there is no configuration "),
    ([PRETRAIN / "base.yaml", "+run=n512"], "Could not find 'run/n512'"),
    ([PRETRAIN / "base.yaml", "model.projected_dims=4"], "Could not override 'model.projected_dims'"),
    ([PRETRAIN / "base.yaml", "other.yaml"], "other.yaml is a second configuration"),
    ([PRETRAIN / "base.yaml", "model.projected_dim=600"], "projected_dim is 600; it must be between 1 and max_positions, which is 512"),
    ([PRETRAIN / "base.yaml", "model._name=bart_base"], "the model is 'bart_base'; it must be one of linformer_roberta, "),
    ([PRETRAIN / "base.yaml", "+model.quant_noise_pq=0.1"], "model.quant_noise_pq is 0.1; the planner does not know it, leave it out"),
    ([PRETRAIN / "base.yaml", "optimizer._name=sgd"], "optimizer._name is sgd; the planner knows adam"),
    ([PRETRAIN / "base.yaml", "optimization.update_freq=[1,2]"], "optimization.update_freq is [1, 2]; the planner wants one number"),
    ([PRETRAIN / "base.yaml", "dataset.batch_size=0"], "dataset.batch_size is 0 and dataset.max_tokens None; one of them must allow"),
    ([PRETRAIN / "base.yaml", "dataset.batch_size=12"], "a batch would be of 12 sequences, of which fairseq makes one of a multiple of 8"),
    ([PRETRAIN / "base.yaml", "ema.store_ema=true"], "ema.store_ema is on; the planner does not know it, leave it out"),
    ([PRETRAIN / "base.yaml", "distributed_training.ddp_backend=slowmo"], "distributed_training.ddp_backend is slowmo; the planner knows"),
    ([PRETRAIN / "base.yaml", "--gpu", "v200"], "the GPU is 'v200'; it must be one of v100-16gb, "),
    ([PRETRAIN / "base.yaml", "--gpus", 96], "96 GPUs do not divide the 2,048 sequences of an update"),
    ([PRETRAIN / "base.yaml", "--gpus", 0], "0 GPUs; it must be at least 1"),
    ([PRETRAIN / "base.yaml", "+run=tiny", "--check"], "--check takes all runs as they are, and no overrides such as +run=tiny"),
])  # fmt: skip
def test_bad_input_is_one_sentence(capsys, arguments, said):
    assert said in refused(capsys, *arguments)


def test_the_command(capsys):
    main(["plan", str(PRETRAIN / "run/n1024-k256-key-value.yaml"), "--gpu", "v100-16gb", "--gpus", "64", "--network-gbit", "100"])
    out = capsys.readouterr().out
    assert "linformer_roberta_base, n = 1,024, k = 256, key-value: 128,235,609 parameters, 3,145,728 of them in E and F; fp16" in out
    assert "1,048,576 tokens an update (1,024 sequences), 250,000 updates, 64 x v100-16gb" in out
    assert "all-reduce 256 MB in 10 buckets" in out and "GPU-hours" in out
    assert out.endswith("dataset.batch_size=16 optimization.update_freq=[1] distributed_training.distributed_world_size=64\n")


def test_the_dictionary_of_the_data(mlm_data):
    run = read_run(PRETRAIN / "run/tiny.yaml", [f"task.data={mlm_data}"])
    assert run.cpu and run.model.shape.vocab_size == stock.WORDS + 5  # and four special symbols, and <mask>


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n512-roberta", "n1024-k128-headwise"])
def test_fairseq_trains_a_run(mlm_data, tmp_path, name):
    """The same door, the same overrides, two updates; RoBERTa through it too, which has no dataclass."""
    small = [*SMALL, *([] if "roberta" in name else ["model.projected_dim=8"])]
    losses = stock.hydra_train(mlm_data, tmp_path, f"+run={name}", *small)
    assert len(losses) == 2 and all(5 < loss < 6.5 for loss in losses)
    weights = stock.load(tmp_path)["model"]
    assert any("self_attn.E" in key for key in weights) == ("roberta" not in name)
    run = read_run(PRETRAIN / f"run/{name}.yaml", [f"task.data={mlm_data}", *small])
    from fairseq_linformer.planning.formulas import parameters

    tied = weights["encoder.lm_head.weight"].numel()
    learnt = sum(v.numel() for k, v in weights.items() if not k.endswith((".version", "start", "scale", "windows", "attention_heads")))
    assert parameters(run.model).learnt == learnt - tied
