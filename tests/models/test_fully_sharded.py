"""--ddp-backend fully_sharded over gloo: the training and the checkpoints of the other backends."""

import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import build_model
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from torch import nn
from torch.distributed.fsdp import FSDPModule

from fairseq_linformer.models import fairseq_fixes
from fairseq_linformer.models.fully_sharded import ShardedModel, check_sharding
from fairseq_linformer.models.stub_task import StubTask
from fairseq_linformer.planning.configs import compose_config

from ..fairseq_commands import CONFIGS, load, train
from .test_data_parallel import OPTIONS, run
from .test_model import build

SHARDED = ["--batch-size", 4, "--clip-norm", 0.5, "--min-params-to-wrap", 0]
VARIANTS = {
    "none": ["--sharing", "none", "--projected-dim", "8/3,5", "--checkpoint-activations"],
    "layerwise": ["--sharing", "layerwise", "--projection", "conv", "--local-window", "2", "--update-freq", "2"],
}


def assert_equal_checkpoints(ours, theirs, atol):
    """Parameters, and moments of the optimizer."""
    assert ours["model"].keys() == theirs["model"].keys()
    for key, value in theirs["model"].items():
        torch.testing.assert_close(ours["model"][key], value, rtol=0, atol=atol, msg=lambda m: f"{key}: {m}")
    a, b = (checkpoint["last_optimizer_state"] for checkpoint in (ours, theirs))
    assert a["param_groups"] == b["param_groups"] and a["state"].keys() == b["state"].keys()
    for i, moments in b["state"].items():
        for key, value in moments.items():
            torch.testing.assert_close(a["state"][i][key], value, rtol=0, atol=atol, msg=lambda m: f"{i} {key}: {m}")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
def test_sharded_processes_equal_one_with_twice_the_batch(mlm_data, tmp_path, variant):
    """Resumed on the way, from and with another backend: the checkpoints have one format."""
    options = [*VARIANTS[variant], *SHARDED]
    freq = 4 if "--update-freq" in options else 2
    train(mlm_data, tmp_path / "one", *OPTIONS, *options, "--update-freq", freq, updates=6)
    for updates, backend in ((2, "fully_sharded"), (4, "legacy_ddp"), (6, "fully_sharded")):
        logs = run(mlm_data, tmp_path / "two", *options, updates=updates, backend=backend)
    shard, total = map(int, re.search(r"2 of 2 layers .* this rank has (\d+) of (\d+)", logs[0]).groups())
    assert 0.45 < shard / total < 0.55
    assert_equal_checkpoints(load(tmp_path / "two"), load(tmp_path / "one"), 1e-5)


@pytest.mark.slow
@pytest.mark.long
def test_flat_parameters_of_fp16_equal_those_of_other_backends(mlm_data, tmp_path, monkeypatch):
    """Resumed. fp16 has one flat copy of all parameters, for which fairseq needs no more of a GPU than its index."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # the index of a CPU
    monkeypatch.setattr(fairseq_fixes, "check_half_precision", lambda common: None)
    for backend in ("legacy_ddp", "fully_sharded"):
        for updates in (2, 4):
            options = ["--fp16", "--batch-size", 4, "--clip-norm", 0.5]
            run(mlm_data, tmp_path / backend, *options, updates=updates, backend=backend)
    whole = load(tmp_path / "legacy_ddp")
    assert len(whole["last_optimizer_state"]["state"]) == 1
    assert_equal_checkpoints(load(tmp_path / "fully_sharded"), whole, 1e-6)


LAYER_SIZE = sum(p.numel() for p in build().encoder.sentence_encoder.layers[0].parameters())


@pytest.mark.parametrize(
    "options, is_alone",
    [
        (dict(min_params_to_wrap=LAYER_SIZE), True),
        (dict(min_params_to_wrap=LAYER_SIZE + 1), False),
        (dict(min_params_to_wrap=LAYER_SIZE + 1, checkpoint_activations=True), True),
    ],
    ids=str,
)
def test_layers_of_min_params_to_wrap_are_gathered_on_their_own(tmp_path, options, is_alone):
    assert find_gathered_layers(partial(build, **options), tmp_path) == [is_alone] * 2


def build_roberta_of_a_yaml():
    small = ("encoder_layers=2", "encoder_embed_dim=16", "encoder_ffn_embed_dim=32", "encoder_attention_heads=2")
    cfg = compose_config(CONFIGS / "pretrain/run/n512-roberta.yaml", [f"+model.{option}" for option in small])
    return build_model(cfg.model, StubTask(64, 16))


def test_roberta_of_a_yaml_has_the_default_of_min_params_to_wrap(tmp_path):
    """fairseq defines it for flags only."""
    assert find_gathered_layers(build_roberta_of_a_yaml, tmp_path) == [False] * 2


def find_gathered_layers(build_unsharded, folder):
    """Whether each layer is gathered on its own. In a child process: after a process group has ended in this one, the
    workers of a DataLoader crash."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(_find_gathered_layers, build_unsharded, f"file://{folder}/init").result()


def _find_gathered_layers(build_unsharded, init_method):
    model = build_unsharded()
    torch.distributed.init_process_group("gloo", init_method=init_method, rank=0, world_size=1)
    settings = SimpleNamespace(fp32_reduce_scatter=False, no_reshard_after_forward=False)
    ShardedModel(model, settings, torch.distributed.group.WORLD, torch.device("cpu")).shard()
    assert isinstance(model, FSDPModule)
    return [isinstance(layer, FSDPModule) for layer in model.encoder.sentence_encoder.layers]


def build_config(**changes):
    cfg = {
        "common": {"amp": False, "quantization_config_path": None},
        "ema": {"store_ema": False},
        "optimization": {"use_bmuf": False},
        "distributed_training": {
            "ddp_backend": "fully_sharded",
            "cpu_offload": False,
            "use_sharded_state": False,
            "pipeline_model_parallel": False,
            "zero_sharding": "none",
            "heartbeat_timeout": -1,
        },
    }
    return OmegaConf.merge(cfg, OmegaConf.from_dotlist([f"{key}={value}" for key, value in changes.items()]))


@pytest.mark.parametrize(
    "key, value",
    [
        ("common.amp", True),
        ("ema.store_ema", True),
        ("distributed_training.cpu_offload", True),
        ("distributed_training.use_sharded_state", True),
        ("distributed_training.zero_sharding", "os"),
        ("distributed_training.heartbeat_timeout", 60),
    ],
)
def test_unsupported_options_are_rejected_by_name(key, value):
    model = build()
    check_sharding(build_config(), model, nn.Identity())
    with pytest.raises(ValueError, match=f"{key.split('.')[1]}.*fully_sharded"):
        check_sharding(build_config(**{key: value}), model, nn.Identity())


def test_unsupported_models_and_criterions_are_rejected_by_name():
    with pytest.raises(ValueError, match="encoder_layerdrop .* 0.5"):
        check_sharding(build_config(), build(encoder_layerdrop=0.5), nn.Identity())
    with pytest.raises(ValueError, match="criterion .* Linear"):
        check_sharding(build_config(), build(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="model .* Linear"):
        check_sharding(build_config(), nn.Linear(2, 2), nn.Identity())


@pytest.mark.parametrize("kind", [KeyError, FloatingPointError])
def test_a_failed_rank_does_not_wait_for_the_others_to_save_a_checkpoint(kind):
    """fairseq saves crash.pt, for which all ranks would have to gather it."""
    trainer = SimpleNamespace(model=ShardedModel(nn.Linear(2, 2), None, None, torch.device("cpu")))

    def train_step(task=None):  # the trainer's, and that of its task
        if task is None:
            raise kind("a failure of one rank")
        try:
            task()
        except Exception:
            Trainer.consolidate_optimizer(trainer)

    with pytest.raises(kind, match="a failure of one rank"):
        train_step(train_step)


def test_non_finite_gradients_of_all_ranks_are_saved(monkeypatch):
    cfg = SimpleNamespace(checkpoint=SimpleNamespace(no_save_optimizer_state=True))
    trainer = SimpleNamespace(model=ShardedModel(nn.Linear(2, 2), None, None, torch.device("cpu")), cfg=cfg)
    gathered = []
    monkeypatch.setattr(ShardedModel, "gather_state", lambda model: gathered.append(model))

    def train_step():
        try:
            raise FloatingPointError("gradients are Nan/Inf")
        except FloatingPointError:
            Trainer.consolidate_optimizer(trainer)

    train_step()
    assert gathered == [trainer.model]
