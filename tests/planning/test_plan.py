"""Micro-batches, memory and time of whole runs, and what is refused."""

from dataclasses import replace

import pytest

from fairseq_linformer.planning.configs import read_run
from fairseq_linformer.planning.formulas import flops, parameters
from fairseq_linformer.planning.gpus import GIB, GPUS, gpu_of
from fairseq_linformer.planning.plan import largest_batch, make_plan, memory_of, share_of_update
from fairseq_linformer.planning.scaling import at

from ..stock import CONFIGS

V100, H100 = GPUS["v100-16gb"], GPUS["h100-80gb"]


@pytest.fixture(scope="module")
def run():
    return read_run(CONFIGS / "pretrain/base.yaml")


@pytest.mark.parametrize("n", [512, 1024, 4096])
@pytest.mark.parametrize("gpus", [1, 8, 64, 256])
def test_tokens_of_an_update_stay(run, n, gpus):
    for gpu in GPUS.values():
        for checkpointed in (False, True):
            plan = make_plan(at(run, n), gpu, gpus, checkpointed=checkpointed)
            assert plan.sequences * plan.update_freq * gpus * n == 1_048_576
            assert plan.memory.total <= gpu.usable


def test_the_largest_batch_is_the_largest(run):
    for checkpointed in (False, True):
        most = largest_batch(run, V100, 64, checkpointed)
        assert memory_of(run, most, 64, checkpointed).total <= V100.usable < memory_of(run, most + 1, 64, checkpointed).total


def test_micro_batches_are_those_that_fairseq_makes(run):
    """24 sequences on a GPU: 24, 8, or less than 8, but not 12."""
    odd = replace(run, sequences=3, update_freq=8)
    assert [(p.sequences, p.update_freq) for p in (make_plan(odd, V100, 1), make_plan(replace(odd, model=at(run, 4096).model, positions=4096,
            masked=615), V100, 1))] == [(24, 1), (8, 3)]  # fmt: skip


def test_time_by_hand(run):
    """On one GPU: operations over what the GPU does, and the optimizer's bytes over what its memory does."""
    plan = make_plan(run, V100, 1, utilisation=0.5, sequences=16)
    once = flops(run.model, run.batch(16))
    assert plan.update_freq == 128 and plan.reduced == 0 and plan.time.communication == 0
    assert plan.time.compute == pytest.approx(128 * (once.forward + once.backward) / 62.5e12)
    learnt, fixed = parameters(run.model).learnt, parameters(run.model).fixed
    assert plan.time.step == pytest.approx(2 * (20 * learnt + 2 * fixed) / 900e9)
    assert plan.hours == pytest.approx(250_000 * plan.time.total / 3600)
    assert plan.tokens_a_second == pytest.approx(1_048_576 / plan.time.total)


def test_what_changes_time_and_memory_in_which_direction(run):
    plan = make_plan(run, V100, 64, sequences=16)
    assert make_plan(run, V100, 64, network=10, sequences=16).time.exposed > plan.time.exposed > 0
    again = make_plan(run, V100, 64, checkpointed=True, sequences=16)
    assert again.memory.activations < plan.memory.activations / 4 and 1.2 < again.time.compute / plan.time.compute < 1.34
    legacy = make_plan(replace(run, ddp="legacy_ddp"), V100, 64, sequences=16)
    assert legacy.time.exposed == legacy.time.communication == pytest.approx(plan.time.communication)
    sharded = replace(run, ddp="fully_sharded", wrap_from=0)
    shards = make_plan(sharded, V100, 64, sequences=16)
    assert shards.memory.optimizer * 10 < plan.memory.optimizer and shards.time.communication == pytest.approx(1.5 * 2 * plan.time.communication)
    one_unit = make_plan(replace(sharded, wrap_from=10**8), V100, 64, sequences=16)
    assert one_unit.memory.weights > shards.memory.weights and one_unit.time.exposed == pytest.approx(one_unit.time.communication)
    assert memory_of(run, 16, 1, False).buckets == 0 < memory_of(run, 16, 2, False).buckets == plan.reduced


def test_linear_in_n_and_not(run):
    hours = {(s, n): make_plan(at(run, n, s), H100, 8).hours for s in ("layerwise", None) for n in (512, 32768)}
    assert hours["layerwise", 32768] < hours["layerwise", 512] < hours[None, 512] < hours[None, 32768] / 5


@pytest.mark.parametrize("arguments, said", [
    (dict(gpus=96), r"96 GPUs do not divide the 2,048 sequences of an update \(1,048,576 tokens, n = 512\); these do: 16, 32, 64, 128"),
    (dict(gpus=0), "0 GPUs; it must be at least 1"),
    (dict(utilisation=35), "utilisation is 35; it must be above 0 and at most 1"),
    (dict(network=0), "the network has 0 Gbit/s; it must be above 0"),
    (dict(sequences=3), "a micro-batch of 3 sequences does not divide the 32 of an update on each of 64 GPUs"),
    (dict(sequences=12), "of 12 sequences fairseq makes batches of a multiple of 8, required_batch_size_multiple"),
    (dict(sequences=512, gpus=1), r"a micro-batch of 512 sequences of 512 tokens needs \d+\.\d GiB and does not fit v100-16gb, which has 14.2 to use; "
     r"\d+ do and \d+ with \+model.checkpoint_activations=true"),
])  # fmt: skip
def test_refusals(run, arguments, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        make_plan(run, V100, **{"gpus": 64, **arguments})


def test_what_would_fit_is_said_and_fits(run):
    with pytest.raises(ValueError, match=r"^a micro-batch of one sequence of 65,536 tokens needs .*; one sequence fits (.*)$") as refusal:
        make_plan(at(run, 65536, "headwise"), V100, 8)
    for name in str(refusal.value).rpartition("fits ")[2].split(", "):
        assert make_plan(at(run, 65536, "headwise"), gpu_of(name), 8).memory.total < gpu_of(name).memory * GIB
    long = at(run, 65536)
    with pytest.raises(ValueError, match=r"; 1 with \+model.checkpoint_activations=true$"):
        make_plan(long, V100, 8)
    assert make_plan(long, V100, 8, checkpointed=True).sequences == 1


def test_half_precision_that_a_gpu_lacks(run):
    bf16 = replace(run, precision="bf16")
    with pytest.raises(ValueError, match="^v100-16gb has no bf16; use common.fp16=true common.bf16=false$"):
        make_plan(bf16, V100, 8)
    assert make_plan(bf16, H100, 8).time == make_plan(run, H100, 8).time


def test_gpus():
    with pytest.raises(ValueError, match="^the GPU is 'v200'; it must be one of v100-16gb, v100-32gb, a100-40gb, a100-80gb, h100-80gb, h200-141gb$"):
        gpu_of("v200")
    assert V100.slowest_link(8) == pytest.approx(120e9) and V100.slowest_link(16) == pytest.approx(40e9)
    assert V100.slowest_link(8, network=1) == V100.slowest_link(8)  # inside a node


def test_share_of_update(run):
    assert share_of_update(run, 1024) == 2
    with pytest.raises(ValueError, match="these do: 128, 256$|these do: 32, 64, 128, 256$"):
        share_of_update(at(run, 4096), 512)
