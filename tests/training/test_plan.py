"""``fairseq-linformer plan``: what it counts, against numbers computed by hand and real steps."""

from itertools import accumulate

import pytest
from torch.profiler import profile

from fairseq_linformer.benchmark.gpus import GPUS
from fairseq_linformer.cli import main
from fairseq_linformer.models.stub_task import VOCAB_SIZE
from fairseq_linformer.training.plan import PlannedRun

from ..fairseq_commands import CONFIGS

PRETRAIN = CONFIGS / "pretrain"
BASE = PRETRAIN / "base.yaml"
V100 = GPUS["v100-16gb"]
N, K, D, F, M = 20, 4, 8, 16, 3
"""n, k, d, width of the feed-forward, and masked tokens, 15 % of n, of a model that fits on a page."""
SMALL = [
    f"task.tokens_per_sample={N}",
    f"+model.encoder_embed_dim={D}",
    f"+model.encoder_ffn_embed_dim={F}",
    "+model.encoder_layers=1",
    "+model.encoder_attention_heads=2",
    "common.fp16=false",
    "dataset.batch_size=1",
    "optimization.update_freq=[1]",
]
HEAD = M * D * (D + VOCAB_SIZE)
"""Multiplications of the language-model head, forward."""


def test_parameters_and_operations_of_roberta():
    """Two operations per multiplication. The backward pass has twice those of the forward pass, and fused attention
    computes the scores again."""
    run = PlannedRun(BASE, ["+run=n512-roberta", *SMALL])
    norms, biases = 2 * D * 4, 4 * D + F + D
    embeddings, head = (VOCAB_SIZE + N + 2) * D, D * D + D + VOCAB_SIZE
    assert run.parameters == embeddings + 4 * D * D + 2 * D * F + biases + norms + head
    maps, attention = N * (4 * D * D + 2 * D * F), 2 * N * N * D
    assert run.operations() == 2 * (3 * (maps + HEAD) + 3.5 * attention)


def test_operations_of_a_linformer():
    """The last layer computes the masked positions only, from keys and values of k projected positions."""
    run = PlannedRun(BASE, [f"model.projected_dim={K}", *SMALL])
    assert run.kind == f"n{N}-k{K}-layerwise"
    projected = K * N * D + 2 * K * D * D  # E x, of which keys and values are computed
    maps, attention = M * (2 * D * D + 2 * D * F), 2 * M * K * D
    assert run.operations() == 2 * (3 * (projected + maps + HEAD) + 3.5 * attention)


@pytest.mark.slow
@pytest.mark.parametrize("model, recomputed", [("+run=n512-k128-headwise", True), ("+run=n512-roberta", False)])
def test_memory_of_a_real_step(model, recomputed):
    """In single precision and without dropout, a CPU runs the kernels of a GPU, as far as memory is concerned. All
    tokens of the real step are masked."""
    sizes = ["+model.encoder_layers=3", "+model.encoder_embed_dim=64", "+model.encoder_ffn_embed_dim=256"]
    small = ["+model.encoder_attention_heads=4", "common.fp16=false", "+task.mask_prob=0.999"]
    run = PlannedRun(BASE, [model, *sizes, *small, "model.dropout=0", "model.attention_dropout=0"])
    planned = run.memory(2, recomputed, 1)
    _, step = run.build_step(2, recomputed)
    with profile(profile_memory=True) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    allocated = [event.nbytes() for event in events if event.name() == "[memory]"]
    assert planned.activations == pytest.approx(max(accumulate(allocated)), rel=0.001)


def test_states_in_half_precision():
    """Bytes per parameter: weights and gradients 2 each, two moments, and copies of both unless it is
    memory-efficient, 4 each."""
    half = [*SMALL, f"model.projected_dim={K}", "common.fp16=true"]
    run, efficient = (PlannedRun(BASE, [*half, *words]) for words in ([], ["common.memory_efficient_fp16=true"]))
    one, two = (run.memory(1, False, gpus) for gpus in (1, 2))
    assert (one.gradients, one.optimizer) == (2 * run.parameters, 16 * run.parameters)
    assert two.gradients == 2 * one.gradients and 2 * run.parameters < one.weights < 2 * run.parameters + 1000
    assert efficient.memory(1, False, 1).optimizer == 8 * run.parameters


@pytest.mark.slow
def test_largest_batch_fits_and_the_next_does_not():
    run = PlannedRun(BASE, ["+model.encoder_layers=4"])
    largest = run.largest_batch(2048, V100, 1, False)
    sizes = [sum(run.memory(sequences, False, 1)) for sequences in (largest, 2 * largest)]
    assert sizes[0] <= V100.usable < sizes[1]


@pytest.mark.slow
def test_page_has_the_output_of_the_command(capsys):
    _, _, command, *shown = (CONFIGS.parent / "docs/planning.md").read_text().splitlines()
    main(command.split()[1:])
    printed = capsys.readouterr().out.strip().splitlines()
    assert [line[4:] for line in shown[: len(printed)]] == printed
