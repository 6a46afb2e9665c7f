"""Time per token against n."""

import pytest

from fairseq_linformer.benchmark.scaling import PerToken, Scaling, exponent


def test_the_exponent_of_a_power():
    assert exponent([512, 1024, 4096], [5 * n**0.7 for n in (512, 1024, 4096)]) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="1 lengths"):
        exponent([512], [1.0])


def test_refusals():
    for make, field in (
        (lambda: Scaling(48, 64), "tokens"),
        (lambda: Scaling(64, 64, models=("transformer",)), "transformer"),
        (lambda: PerToken((64, 64)), "lengths"),
        (lambda: Scaling(64, 64, k=128), "128"),
    ):
        with pytest.raises(ValueError, match=field):
            make()


def test_a_model_without_memory_for_its_weights_is_not_run():
    cell = Scaling(
        64, 64, 8, ("transformer-eager", "linformer"), layers=1, embed_dim=64, heads=1, rounds=1, usable_gib=1e-6
    )
    found = cell.measure()
    assert list(found["seconds"]) == ["linformer"] and "GiB" in found["failed"]["transformer-eager"]
