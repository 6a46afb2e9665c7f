"""The sizes of Table 2 fit together; ``test_run.py`` has those of the comparisons."""

import pytest

from fairseq_linformer.reproduction.paper.table_2 import NAMES, SIZES


@pytest.mark.parametrize("name", SIZES)
def test_finetuned_models_grow_by_doubling(name):
    sizes = SIZES[name]
    lengths = [n for n, _ in sizes["stages"]]
    assert [2 * n for n in lengths[:-1]] == lengths[1:]
    assert {model.n for model in sizes["linformers"]} <= {lengths[-1], 2 * lengths[-1]}
    first = sizes["linformers"][0]
    assert {first.n // 2, first.sharing} == {first.k, "headwise"} and list(sizes["epochs"]) == list(NAMES)
