"""The sizes of a reproduction fit together."""

import pytest

from fairseq_linformer.reproduction.experiments.table_2 import NAMES, SIZES
from fairseq_linformer.reproduction.scales import SCALES

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


@pytest.mark.parametrize("name", SIZES)
def test_finetuned_models_grow_by_doubling(name):
    sizes = SIZES[name]
    lengths = [n for n, _ in sizes["stages"]]
    assert [2 * n for n in lengths[:-1]] == lengths[1:]
    assert {model.n for model in sizes["linformers"]} <= {lengths[-1], 2 * lengths[-1]}
    first = sizes["linformers"][0]
    assert {first.n // 2, first.sharing} == {first.k, "headwise"} and list(sizes["epochs"]) == list(NAMES)
