"""Each run's configuration is that of its plan, and seeds are different runs."""
# ruff: noqa: F811 (fixtures are imported)

import pytest

from fairseq_linformer.reproduction.experiments import table_2
from fairseq_linformer.reproduction.finetuning_plan import SIZES, pretrainings
from fairseq_linformer.reproduction.registry import experiments, find
from fairseq_linformer.reproduction.run_folders import RunFolder
from fairseq_linformer.reproduction.runs import Model, Run, compared_run, in_training_order, run_from_scratch
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.training import TrainingExperiment

from .trainer import text  # noqa: F401

TRAINING = [each for each in experiments() if isinstance(each, TrainingExperiment)]
IDS = [each.name for each in TRAINING]
COMPARED = [each for each in TRAINING if each.name != "figure-1"]  # which has one seed
SEEDS = {"smoke": (1,), "cpu": (1, 2, 3), "gpu": (1,)}


def options_of(run, scale, runs, text) -> dict[str, str]:
    training = RunFolder(run, scale, runs, text).training()
    assert len({each.partition("=")[0] for each in training.overrides}) == len(training.overrides)
    return dict(each.split("=", 1) for each in training.overrides)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("experiment", COMPARED, ids=[each.name for each in COMPARED])
def test_every_seed_is_another_run(experiment, name, text, tmp_path):
    """With its own data order, masks and start, and nothing else of its own."""
    scale = SCALES[name]
    assert scale.seeds == SEEDS[name]
    for model, runs in experiment.plan(scale).items():
        histories = [run.history for run in runs]
        assert [[run.seed for run in history] for history in histories] == [
            [seed] * len(histories[0]) for seed in scale.seeds
        ]
        for stage in zip(*histories):
            options = [options_of(run, scale, tmp_path, text) for run in stage]
            assert [o.pop("common.seed") for o in options] == [*map(str, scale.seeds)], model
            starts = [o.pop("checkpoint.finetune_from_model") for o in options]
            assert all(o == options[0] for o in options)
            assert len({run.name for run in stage}) == len(stage)
            assert all(run.name.endswith(f"/seed{run.seed}") for run in stage)
            if starts[0] == "null":
                assert set(starts) == {"null"}
            else:
                assert all(f"seed{run.seed}" in start for run, start in zip(stage, starts)) and len({*starts}) == len(
                    stage
                )


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("experiment", TRAINING, ids=IDS)
def test_options_follow_the_plan(experiment, name, text, tmp_path):
    """As many tokens in each update, whatever n; the scale's learning rate; decay in the comparison alone."""
    scale = SCALES[name]
    for run in in_training_order(experiment.plan(scale)):
        o, model = options_of(run, scale, tmp_path, text), run.model
        assert int(o["dataset.batch_size"]) * model.n == scale.tokens and o["optimization.update_freq"] == "[1]"
        assert int(o["dataset.batch_size_valid"]) * model.n == 2 * scale.tokens
        assert o["task.tokens_per_sample"] == str(model.n)
        assert o["optimization.lr"] == f"[{scale.lr}]" and o["optimization.max_update"] == str(run.updates)
        assert o["lr_scheduler._name"] == ("polynomial_decay" if run.decays else "fixed")
        warmup = scale.warmup if run.predecessor is None else min(scale.warmup, run.updates // 10)
        assert o["lr_scheduler.warmup_updates"] == str(warmup) and 0 <= warmup < run.updates
        assert o["checkpoint.save_interval_updates"] == str(scale.validate)
        assert o["++model.encoder_layers"] == str(scale.layers) and o["++model.encoder_embed_dim"] == str(scale.width)
        assert o["++model.encoder_ffn_embed_dim"] == str(4 * scale.width)
        assert o["++model.encoder_attention_heads"] == str(scale.heads)
        assert (o["common.bf16"], o["common.fp16"]) == (str(scale.precision == "bf16").lower(), "false")
        start = o["checkpoint.finetune_from_model"]
        assert (start == "null") == (run.predecessor is None)


@pytest.mark.parametrize("name", SCALES)
def test_different_runs_have_different_folders(name):
    """Experiments share a run only if it is the same."""
    runs = {run for experiment in TRAINING for run in in_training_order(experiment.plan(SCALES[name]))}
    assert len({run.name for run in runs}) == len(runs)


@pytest.mark.parametrize("experiment", TRAINING, ids=IDS)
def test_the_comparison_decays_and_what_comes_before_does_not(experiment):
    scale = SCALES["cpu"]
    for runs in experiment.plan(scale).values():
        assert not any(run.decays for run in runs[0].history[:-1])
        assert runs[0].decays == (experiment.name not in ("scratch", "growing", "conversion", "conversion-long"))
        assert runs[0].updates == (500 if runs[0].decays else runs[0].updates)


def test_options_by_hand(text, tmp_path):
    """One of each kind at the CPU scale."""
    scale, folder = SCALES["cpu"], (tmp_path / "runs").absolute()
    converted = compared_run(Model(128, 32, "layerwise", start="jl", rate=0.5))(scale, 2)
    grown = converted.predecessor
    at = "grown", 400, "fixed", 40, "roberta", "null", "null"
    expected = {grown.predecessor.predecessor: (16, 128, "scratch", 2000, "fixed", 250, "roberta", "null", "null")}
    expected |= {grown.predecessor: (64, 32, *at), grown: (128, 16, *at)}
    expected[converted] = (128, 16, "converted", 500, "polynomial_decay", 50, "linformer_roberta", "32", "layerwise")
    expected.pop(grown.predecessor), expected.pop(grown.predecessor.predecessor)
    for run, (n, batch, made, updates, schedule, warmup, name, k, sharing) in expected.items():
        o = options_of(run, scale, folder, text)
        found = (
            int(o["task.tokens_per_sample"]),
            int(o["dataset.batch_size"]),
            run.made,
            int(o["optimization.max_update"]),
            o["lr_scheduler._name"],
            int(o["lr_scheduler.warmup_updates"]),
            o["++model._name"],
            o["++model.projected_dim"],
            o["++model.sharing"],
        )
        assert found == (n, batch, made, updates, schedule, warmup, name, k, sharing)
    o = options_of(converted, scale, folder, text)
    assert o["checkpoint.finetune_from_model"] == f"'{folder}/starts/{converted.name}.pt'"
    assert (o["++model.projection"], o["++model.projection_init"], o["++model.projection_lr_scale"]) == (
        "linear",
        "jl",
        "0.5",
    )
    assert (o["optimization.lr"], o["optimization.clip_norm"], o["dataset.max_valid_steps"]) == ("[0.002]", "1.0", "25")
    assert (o["++model.dropout"], o["++model.attention_dropout"]) == ("0.0", "0.0")
    assert o["++model.encoder_normalize_before"] == "true"
    assert o["dataset.required_batch_size_multiple"] == "1" and o["common.log_interval"] == "100"
    assert o["task.data"] == f"'{(text / 'shard0').resolve()}'"
    assert [run.made for run in grown.history] == ["scratch", "grown", "grown", "grown"]


def test_defaults_of_e_and_f_are_left_out(text, tmp_path):
    o = options_of(compared_run(Model(16, 8, start=None))(SCALES["smoke"], 1), SCALES["smoke"], tmp_path, text)
    assert "++model.projection_init" not in o and "++model.projection_lr_scale" not in o


@pytest.mark.parametrize(
    "scale, device, layers, bf16", [("smoke", "cpu", 1, False), ("cpu", "cpu", 2, False), ("gpu", "cuda", 6, True)]
)
def test_composed_by_hydra(scale, device, layers, bf16, text, tmp_path):
    """What fairseq receives, of the third seed."""
    sizes = SCALES[scale]
    run = run_from_scratch(Model(sizes.n, sizes.n // 4, "key-value"))(sizes, 3)
    training = RunFolder(run, sizes, tmp_path / "runs", text).training()
    cfg = training.cfg
    assert (training.device, training.processes, training.folder) == (device, 1, tmp_path / "runs" / run.name)
    assert (
        cfg.common.seed == 3 and cfg.common.cpu == (device == "cpu") and cfg.common.bf16 == bf16 and not cfg.common.fp16
    )
    assert cfg.dataset.batch_size * cfg.task.tokens_per_sample * cfg.optimization.update_freq[0] == sizes.tokens
    assert (cfg.lr_scheduler._name, cfg.lr_scheduler.warmup_updates) == ("fixed", sizes.warmup)
    assert (list(cfg.optimization.lr), cfg.optimization.max_update) == ([sizes.lr], sizes.base)
    assert (cfg.model._name, cfg.model.projected_dim, cfg.model.sharing) == (
        "linformer_roberta",
        sizes.n // 4,
        "key-value",
    )
    assert cfg.model.encoder_layers == layers and cfg.checkpoint.finetune_from_model is None
    assert (cfg.optimizer._name, cfg.optimizer.weight_decay, cfg.optimization.clip_norm) == ("adam", 0.01, 1.0)
    assert (cfg.dataset.max_valid_steps, cfg.dataset.num_workers) == (25, 4 if device == "cuda" else 0)


def test_composed_from_a_checkpoint(text, tmp_path):
    sizes = SCALES["smoke"]
    run = compared_run(Model(16))(sizes, 2)
    folder = RunFolder(run, sizes, tmp_path, text)
    folder.initial_checkpoint.parent.mkdir(parents=True)
    folder.initial_checkpoint.touch()
    cfg = folder.training().cfg
    assert folder.initial_checkpoint == tmp_path / run.predecessor.name / "checkpoints/checkpoint_last.pt"
    assert cfg.checkpoint.finetune_from_model == str(folder.initial_checkpoint)
    assert (cfg.model._name, cfg.lr_scheduler._name, cfg.lr_scheduler.total_num_update) == (
        "roberta",
        "polynomial_decay",
        4,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALES)
def test_every_kind_of_model_composes(name, text, tmp_path):
    """One run of each kind, as fairseq receives it; runs of one kind differ in numbers alone."""
    sizes, kinds = SCALES[name], {}
    for experiment in TRAINING:
        for run in in_training_order(experiment.plan(sizes)):
            model = run.model
            kind = model.k is None, model.sharing, model.projection, model.start, run.predecessor is None, run.decays
            kinds.setdefault(kind, run)
    assert len(kinds) > 5
    for run in kinds.values():
        folder = RunFolder(run, sizes, tmp_path, text)
        if folder.initial_checkpoint is not None:
            folder.initial_checkpoint.parent.mkdir(parents=True, exist_ok=True)
            folder.initial_checkpoint.touch()
        cfg, options = folder.training().cfg, options_of(run, sizes, tmp_path, text)
        assert cfg.common.seed == run.seed == int(options["common.seed"])
        assert cfg.dataset.batch_size * cfg.task.tokens_per_sample == sizes.tokens
        assert (cfg.lr_scheduler._name == "polynomial_decay") == run.decays
        assert cfg.optimization.max_update == run.updates
        if run.model.k is not None:
            built = cfg.model.projected_dim, cfg.model.sharing, cfg.model.projection
            assert built == (run.model.k, run.model.sharing, run.model.projection)


@pytest.mark.parametrize("scale", SCALES)
def test_pretrainings_of_table_2_have_one_seed(scale):
    """Seeds of its records are of finetuning."""
    (table,) = table_2.EXPERIMENTS
    runs = in_training_order({name: [run] for name, run in pretrainings(SCALES[scale], SIZES[scale]).items()})
    assert {run.seed for run in runs} == {1} and find("table-2") is table
    assert all(isinstance(run, Run) for run in runs)
