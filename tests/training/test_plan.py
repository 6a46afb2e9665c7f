"""Micro-batches, memory and time of whole runs, and what is rejected."""

import math
from dataclasses import replace

import pytest

from fairseq_linformer.benchmark.formulas import count_parameters, num_embedding_parameters, step_flops
from fairseq_linformer.benchmark.gpus import GIB, GPUS, LATENCY, SINGLE_UTILIZATION, find_gpu
from fairseq_linformer.training.plan import (
    RunPlan,
    all_reduce_seconds,
    build_plan,
    build_plans,
    largest_micro_batch,
    micro_batch_memory,
    sequences_per_gpu,
)

from .runs import TOKENS, base_run

V100, H100 = GPUS["v100-16gb"], GPUS["h100-80gb"]


def v100_plan(run, gpus=64, sequences=16, checkpoint_activations=False, utilization=0.3, network=None):
    """A plan on V100 GPUs with the given micro-batch."""
    return RunPlan(
        run,
        V100,
        gpus,
        checkpoint_activations,
        sequences,
        sequences_per_gpu(run, gpus) // sequences,
        utilization,
        network,
    )


@pytest.mark.slow
@pytest.mark.parametrize("n, gpus", [(512, 1), (512, 64), (4096, 8), (4096, 256)])
def test_tokens_per_update_do_not_change(n, gpus):
    for gpu in GPUS.values():
        for checkpoint_activations in (False, True):
            plan = build_plan(base_run(n), gpu, gpus, checkpoint_activations=checkpoint_activations)
            assert plan.sequences * plan.update_freq * gpus * n == TOKENS
            assert plan.memory.total <= gpu.usable


@pytest.mark.parametrize("checkpoint_activations", [False, True])
def test_one_more_sequence_than_the_largest_batch_does_not_fit(checkpoint_activations):
    most = largest_micro_batch(base_run(), V100, 64, checkpoint_activations)
    sizes = [
        micro_batch_memory(base_run(), sequences, 64, checkpoint_activations).total for sequences in (most, most + 1)
    ]
    assert sizes[0] <= V100.usable < sizes[1]


def test_micro_batches_are_sizes_that_fairseq_builds():
    """24 sequences per GPU: a batch of 24 if it fits, else of 8, but not of 12."""
    short, long = (replace(base_run(n), sequences=3, update_freq=8) for n in (512, 2048))
    assert 12 <= largest_micro_batch(long, V100, 1, False) < 24
    plans = [build_plan(run, V100, 1) for run in (short, long)]
    assert [(plan.sequences, plan.update_freq) for plan in plans] == [(24, 1), (8, 3)]


def test_time_on_one_gpu():
    """Operations / (peak * utilization), and bytes of the optimizer step / memory bandwidth."""
    plan = v100_plan(base_run(), 1, utilization=0.5)
    once, count = step_flops(base_run().model, base_run().batch(16)), count_parameters(base_run().model)
    assert plan.update_freq == 128 and plan.all_reduce_bytes == plan.buckets == 0 and plan.time.communication == 0
    assert plan.time.compute == pytest.approx(128 * (once.forward + once.backward) / 62.5e12)
    assert plan.time.step == pytest.approx(2 * (20 * count.trainable + 2 * count.frozen) / 900e9)
    assert plan.hours == pytest.approx(250_000 * plan.time.total / 3600) == plan.gpu_hours
    assert plan.tokens_per_second == pytest.approx(TOKENS / plan.time.total)


def test_ring_all_reduce():
    assert all_reduce_seconds(1000, 1, 10) == 0
    assert all_reduce_seconds(1000, 4, 100) == 2 * 3 / 4 * 10
    assert all_reduce_seconds(0, 8, 1, buckets=5, latency=0.1) == pytest.approx(5 * 6 * 0.1)


def test_backward_pass_hides_communication():
    """On a fast network all but the tied embeddings; on a slow one as much as the backward pass takes."""
    fast, slow = v100_plan(base_run()), v100_plan(base_run(), network=1)
    tied = all_reduce_seconds(2 * num_embedding_parameters(base_run().model), 64, V100.slowest_link(64), 1, LATENCY)
    assert tied < fast.time.communication and fast.time.exposed == pytest.approx(tied)
    backward = step_flops(base_run().model, base_run().batch(16)).backward / (0.3 * 125e12)
    assert slow.time.exposed == pytest.approx(slow.time.communication - backward)
    legacy = v100_plan(replace(base_run(), ddp="legacy_ddp"))
    assert legacy.time.exposed == legacy.time.communication == fast.time.communication


def test_recomputation_trades_memory_for_a_forward_pass():
    stored, recomputed = v100_plan(base_run()), v100_plan(base_run(), checkpoint_activations=True)
    assert recomputed.memory.activations < stored.memory.activations / 4
    assert 1.2 < recomputed.time.compute / stored.time.compute < 4 / 3


def test_buckets_copy_the_gradients_on_several_gpus():
    assert micro_batch_memory(base_run(), 16, 1, False).buckets == 0
    assert (
        micro_batch_memory(base_run(), 16, 2, False).buckets
        == v100_plan(base_run()).all_reduce_bytes
        == 2 * count_parameters(base_run().model).trainable
    )


@pytest.mark.slow
def test_hours_grow_with_n_only_with_full_attention():
    hours = {(s, n): build_plan(base_run(n, s), H100, 8).hours for s in ("layerwise", None) for n in (512, 32768)}
    assert hours["layerwise", 32768] < hours["layerwise", 512] < hours[None, 512] < hours[None, 32768] / 5


def test_times_are_a_range_without_a_utilization():
    """From the slowest to the fastest published for the GPU; of fp32 for a run in fp32."""
    slowest, fastest = build_plans(base_run(), H100, 8)
    assert (slowest.utilization, fastest.utilization) == H100.half_utilization == (0.10, 0.33)
    assert slowest.time.compute == pytest.approx(3.3 * fastest.time.compute) and slowest.memory == fastest.memory
    assert slowest == build_plan(base_run(), H100, 8)
    single = build_plans(replace(base_run(), precision="fp32"), H100, 8)
    assert tuple(plan.utilization for plan in single) == SINGLE_UTILIZATION
    chosen = build_plans(base_run(), H100, 8, utilization=0.2)
    assert chosen[0] == chosen[1] and chosen[0].utilization == 0.2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(gpus=96), "16, 32, 64, 128.* 96"),
        (dict(gpus=0), "gpus .* 0"),
        (dict(utilization=35), "utilization .* 35"),
        (dict(utilization=0), "utilization .* 0"),
        (dict(network=0), "network .* 0"),
        (dict(network=math.nan), "network .* nan"),
    ],
)
def test_rejected_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_plan(base_run(), V100, **{"gpus": 64, **arguments})


@pytest.mark.slow
def test_error_says_what_would_fit():
    large = base_run(65536, "headwise")
    with pytest.raises(ValueError, match="65,536 tokens") as error:
        build_plan(large, V100, 8)
    fits = str(error.value).rpartition("fits ")[2].split(", ")
    assert fits == [gpu.name for gpu in GPUS.values() if largest_micro_batch(large, gpu, 8, False)] != []
    assert build_plan(large, find_gpu(fits[0]), 8).memory.total < find_gpu(fits[0]).memory * GIB
    with pytest.raises(ValueError, match=r"1 .*\+model.checkpoint_activations=true"):
        build_plan(base_run(65536), V100, 8)
    assert build_plan(base_run(65536), V100, 8, checkpoint_activations=True).sequences == 1
    with pytest.raises(ValueError, match="none of the known GPUs"):
        build_plan(base_run(131072, "none"), V100, 8, checkpoint_activations=True)


def test_unsupported_bf16_is_rejected():
    bf16 = replace(base_run(), precision="bf16")
    with pytest.raises(ValueError, match="v100-16gb .* bf16"):
        build_plan(bf16, V100, 8)
    assert build_plan(bf16, H100, 8).time == build_plan(base_run(), H100, 8).time


def test_slowest_link():
    assert V100.slowest_link(8) == pytest.approx(120e9) and V100.slowest_link(16) == pytest.approx(40e9)
    assert V100.slowest_link(8, network=1) == V100.slowest_link(8) > V100.slowest_link(9, network=1)
