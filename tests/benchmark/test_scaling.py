"""Time per token against n."""

import pytest

from fairseq_linformer.benchmark.scaling import PerTokenCell, ScalingCell, exponent


def test_exponent_of_a_power_law():
    assert exponent([512, 1024, 4096], [5 * n**0.7 for n in (512, 1024, 4096)]) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="lengths .* 1"):
        exponent([512], [1.0])


def test_rejected_values():
    for make, field in (
        (lambda: ScalingCell(48, 64), "tokens"),
        (lambda: ScalingCell(64, 64, models=("transformer",)), "transformer"),
        (lambda: PerTokenCell((64, 64)), "lengths"),
        (lambda: ScalingCell(64, 64, k=128), "128"),
    ):
        with pytest.raises(ValueError, match=field):
            make()


def test_model_without_memory_for_its_weights_is_not_run():
    cell = ScalingCell(
        64, 64, 8, ("transformer-eager", "linformer"), layers=1, embed_dim=64, heads=1, rounds=1, usable_gib=1e-6
    )
    result = cell.measure()
    assert list(result["seconds"]) == ["linformer"] and "GiB" in result["failed"]["transformer-eager"]
