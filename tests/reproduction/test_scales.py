"""The sizes of a reproduction fit together."""

import pytest
from omegaconf import OmegaConf

from fairseq_linformer.reproduction.experiments.figure_3 import models_of
from fairseq_linformer.reproduction.experiments.table_2 import SIZES
from fairseq_linformer.reproduction.run import CONFIG, compared_run
from fairseq_linformer.reproduction.scales import SCALES
from fairseq_linformer.reproduction.statistics import MIN_SEEDS

OURS = ("smoke", "cpu", "gpu")


@pytest.mark.parametrize("name", OURS)
def test_every_length_is_a_doubling_and_divides_an_update(name):
    scale = SCALES[name]
    lengths = {scale.n, scale.compared_n, 2 * scale.compared_n, *scale.lengths}
    for n in lengths:
        assert scale.tokens % n == 0 and n % 16 == 0  # k = n / 16 is the smallest
        assert n % scale.n == 0 and (n // scale.n).bit_count() == 1
    assert list(scale.lengths) == sorted(scale.lengths) and scale.fixed_k < scale.lengths[0]
    assert scale.width % scale.heads == 0 and scale.warmup < scale.base
    assert scale.grown < scale.base and scale.validate <= scale.grown  # a run has a point of its curve


def test_figure_3a_at_the_gpu_scale_is_estimated_at_three_calls_of_nine_minutes():
    """The numbers of the comment in ``scales.py``: tokens over the rate that an H100 reached."""
    gpu = SCALES["gpu"]
    compared = [compared_run(model, gpu, 1) for model in models_of("a", gpu).values()]
    grown = sum(run.updates for run in compared[0].parent.history) * gpu.tokens / 240_000
    models = sum(run.updates for run in compared) * gpu.tokens / 240_000
    assert (round(grown), round(models), len(compared)) == (328, 683, 5)
    assert 2 * 9 * 60 < grown + models + 215 < 3 * 9 * 60


def test_the_paper_scale_is_that_of_the_configuration():
    config, paper = OmegaConf.load(CONFIG), SCALES["paper"]
    assert (paper.lr, paper.warmup, paper.base) == (
        config.optimization.lr[0],
        config.lr_scheduler.warmup_updates,
        config.optimization.max_update,
    )
    batch = config.dataset.batch_size * config.optimization.update_freq[0]
    assert paper.tokens == batch * config.task.tokens_per_sample and len(paper.seeds) >= MIN_SEEDS


@pytest.mark.parametrize("name", SIZES)
def test_finetuned_models_grow_by_doubling(name):
    sizes = SIZES[name]
    lengths = [n for n, _ in sizes["stages"]]
    assert [2 * n for n in lengths[:-1]] == lengths[1:]
    assert {model.n for model in sizes["linformers"]} <= {lengths[-1], 2 * lengths[-1]}
    first = sizes["linformers"][0]
    assert (first.n, first.k, first.sharing) == (lengths[-1], lengths[-1] // 2, "headwise")
    assert list(sizes["epochs"]) == ["sst-2", "imdb", "qnli", "qqp"]


def test_finetuning_at_the_gpu_scale_is_in_the_grid_of_roberta():
    """Rates and batches of Liu et al. 2019, Table 10. Pretrained at the paper's n, at the rate of other experiments."""
    gpu = SIZES["gpu"]
    assert gpu["finetuning"] == (2e-5, 32)
    assert gpu["stages"][-1][0] == 512 and gpu["lr"] == SCALES["gpu"].lr
