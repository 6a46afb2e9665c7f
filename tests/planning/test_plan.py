"""Micro-batches, memory and time of whole runs, and what is refused."""

import math
from dataclasses import replace

import pytest

from fairseq_linformer.planning.formulas import embedding_parameters, flops, parameters
from fairseq_linformer.planning.gpus import GIB, GPUS, LATENCY, gpu_of
from fairseq_linformer.planning.plan import (
    Plan, all_reduce_seconds, largest_batch, make_plan, memory_of, share_of_update,
)  # fmt: skip

from .runs import TOKENS, at

V100, H100 = GPUS["v100-16gb"], GPUS["h100-80gb"]


def plan_of(run, gpus=64, sequences=16, checkpointed=False, utilisation=0.3, network=None):
    """On V100, with a micro-batch of our choice."""
    return Plan(run, V100, gpus, checkpointed, sequences, share_of_update(run, gpus) // sequences, utilisation, network)


@pytest.mark.parametrize("n, gpus", [(512, 1), (512, 64), (4096, 8), (4096, 256)])
def test_tokens_of_an_update_stay(n, gpus):
    for gpu in GPUS.values():
        for checkpointed in (False, True):
            plan = make_plan(at(n), gpu, gpus, checkpointed=checkpointed)
            assert plan.sequences * plan.update_freq * gpus * n == TOKENS
            assert plan.memory.total <= gpu.usable


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_largest_batch_is_the_largest(checkpointed):
    most = largest_batch(at(), V100, 64, checkpointed)
    sizes = [memory_of(at(), sequences, 64, checkpointed).total for sequences in (most, most + 1)]
    assert sizes[0] <= V100.usable < sizes[1]


def test_micro_batches_are_those_that_fairseq_makes():
    """24 sequences on a GPU: 24 if they fit, else 8 or less, but not 12."""
    short, long = (replace(at(n), sequences=3, update_freq=8) for n in (512, 2048))
    assert 12 <= largest_batch(long, V100, 1, False) < 24
    plans = [make_plan(run, V100, 1) for run in (short, long)]
    assert [(plan.sequences, plan.update_freq) for plan in plans] == [(24, 1), (8, 3)]


def test_time_on_one_gpu_by_hand():
    """Operations over what the GPU does, and the optimizer's bytes over what its memory does."""
    plan = plan_of(at(), 1, utilisation=0.5)
    once, count = flops(at().model, at().batch(16)), parameters(at().model)
    assert plan.update_freq == 128 and plan.reduced == plan.buckets == 0 and plan.time.communication == 0
    assert plan.time.compute == pytest.approx(128 * (once.forward + once.backward) / 62.5e12)
    assert plan.time.step == pytest.approx(2 * (20 * count.learnt + 2 * count.fixed) / 900e9)
    assert plan.hours == pytest.approx(250_000 * plan.time.total / 3600) == plan.gpu_hours
    assert plan.tokens_a_second == pytest.approx(TOKENS / plan.time.total)


def test_the_ring_by_hand():
    assert all_reduce_seconds(1000, 1, 10) == 0
    assert all_reduce_seconds(1000, 4, 100) == 2 * 3 / 4 * 10
    assert all_reduce_seconds(0, 8, 1, pieces=5, latency=0.1) == pytest.approx(5 * 6 * 0.1)


def test_communication_that_the_backward_pass_hides():
    """A fast network: all but the tied embeddings. A slow one: as much as the backward pass takes."""
    fast, slow = plan_of(at()), plan_of(at(), network=1)
    tied = all_reduce_seconds(2 * embedding_parameters(at().model), 64, V100.slowest_link(64), 1, LATENCY)
    assert tied < fast.time.communication and fast.time.exposed == pytest.approx(tied)
    backward = flops(at().model, at().batch(16)).backward / (0.3 * 125e12)
    assert slow.time.exposed == pytest.approx(slow.time.communication - backward)
    legacy = plan_of(replace(at(), ddp="legacy_ddp"))
    assert legacy.time.exposed == legacy.time.communication == fast.time.communication


def test_recomputed_activations_take_less_memory_and_a_forward_pass_more():
    stored, recomputed = plan_of(at()), plan_of(at(), checkpointed=True)
    assert recomputed.memory.activations < stored.memory.activations / 4
    assert 1.2 < recomputed.time.compute / stored.time.compute < 4 / 3


def test_sharding():
    """A shard of the optimizer; parameters are gathered twice and gradients scattered, for each micro-batch."""
    plan, sharded = plan_of(at()), replace(at(), ddp="fully_sharded", wrap_from=0)
    layers, one_unit = plan_of(sharded), plan_of(replace(sharded, wrap_from=10**8))
    assert layers.memory.optimizer * 10 < plan.memory.optimizer
    assert layers.time.communication == pytest.approx(1.5 * 2 * plan.time.communication)
    assert layers.time.step == pytest.approx(plan.time.step / 64)
    assert one_unit.memory.weights > layers.memory.weights and one_unit.time.exposed == one_unit.time.communication
    assert layers.time.exposed < one_unit.time.exposed


def test_buckets_are_a_copy_of_the_gradients_where_gpus_are_several():
    assert memory_of(at(), 16, 1, False).buckets == 0
    assert memory_of(at(), 16, 2, False).buckets == plan_of(at()).reduced == 2 * parameters(at().model).learnt


def test_linear_in_n_and_not():
    hours = {(s, n): make_plan(at(n, s), H100, 8).hours for s in ("layerwise", None) for n in (512, 32768)}
    assert hours["layerwise", 32768] < hours["layerwise", 512] < hours[None, 512] < hours[None, 32768] / 5


@pytest.mark.parametrize("arguments, token", [
    (dict(gpus=96), "do: 16, 32, 64, 128"), (dict(gpus=0), "0 GPUs"), (dict(utilisation=35), "utilisation is 35"),
    (dict(utilisation=0), "utilisation is 0"), (dict(network=0), "0 Gbit/s"), (dict(network=math.nan), "nan Gbit/s"),
])  # fmt: skip
def test_refusals(arguments, token):
    with pytest.raises(ValueError, match=token):
        make_plan(at(), V100, **{"gpus": 64, **arguments})


def test_a_sequence_that_does_not_fit_is_refused_with_what_would_fit():
    large = at(65536, "headwise")
    with pytest.raises(ValueError, match="65,536 tokens") as refusal:
        make_plan(large, V100, 8)
    fits = str(refusal.value).rpartition("fits ")[2].split(", ")
    assert fits == [gpu.name for gpu in GPUS.values() if largest_batch(large, gpu, 8, False)] != []
    assert make_plan(large, gpu_of(fits[0]), 8).memory.total < gpu_of(fits[0]).memory * GIB
    with pytest.raises(ValueError, match=r"1 with \+model.checkpoint_activations=true"):
        make_plan(at(65536), V100, 8)
    assert make_plan(at(65536), V100, 8, checkpointed=True).sequences == 1
    with pytest.raises(ValueError, match="none of the known GPUs"):
        make_plan(at(131072, "none"), V100, 8, checkpointed=True)


def test_half_precision_that_a_gpu_lacks():
    bf16 = replace(at(), precision="bf16")
    with pytest.raises(ValueError, match="v100-16gb has no bf16"):
        make_plan(bf16, V100, 8)
    assert make_plan(bf16, H100, 8).time == make_plan(at(), H100, 8).time


def test_links_of_a_node_and_between_nodes():
    assert V100.slowest_link(8) == pytest.approx(120e9) and V100.slowest_link(16) == pytest.approx(40e9)
    assert V100.slowest_link(8, network=1) == V100.slowest_link(8) > V100.slowest_link(9, network=1)


def test_gpus_are_those_of_their_data_sheets():
    """GiB, TFLOPS in fp16 and fp32, GB/s of the memory, GB/s of NVLink in one direction, Gbit/s of a DGX."""
    sheets = {"v100": (125, 15.7, 900, 150, 400), "a100": (312, 19.5, None, 300, 1600),
              "h100": (989, 67, 3350, 450, 3200), "h200": (989, 67, 4800, 450, 3200)}  # fmt: skip
    for name, gpu in GPUS.items():
        kind, memory = name.split("-")
        half, single, bandwidth, link, network = sheets[kind]
        assert (gpu.half, gpu.single, gpu.link, gpu.network) == (half, single, link, network)
        assert gpu.bandwidth == (bandwidth or {"40gb": 1555, "80gb": 2039}[memory])
        assert f"{gpu.memory:g}gb" == memory and gpu.bf16 == (kind != "v100")


def test_unknown_gpu():
    with pytest.raises(ValueError, match="v200.*h200-141gb"):
        gpu_of("v200")
