"""Changed files are accepted, or rejected with a ValueError that names them; so are the inputs that found a defect."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..bad_input.test_table import PAGE
from ..bad_input.world import EXECUTED
from .findings import read_findings
from .mutations import KINDS, mutate
from .targets import NAMES, build_targets, check, surroundings

MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.floats(0, 1), st.integers(0, 1 << 16)), min_size=1, max_size=4
)
SLOW = ("override", "config.yaml", "tokenizer-json", "checkpoint", "old-checkpoint", "safetensors", "exported-config")


@pytest.fixture(scope="session")
def targets(world):
    return build_targets(world)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, in which nothing may be executed."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / EXECUTED).exists()


def test_all_targets_are_named(targets):
    assert list(targets) == NAMES and f"({len(NAMES)}, from TSV" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_is_accepted(name, world, targets):
    with surroundings(world, targets[name]) as path:
        # The arrays are not those of a spectrum: only numpy's reader is tested.
        assert check(targets[name], path, targets[name].seed) == "" or name.endswith(".npz")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_changed_files(name, world, targets):
    target = targets[name]
    with surroundings(world, target) as path:

        @settings(
            max_examples=15 if name in SLOW else 40,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(MUTATIONS)
        def changed(mutations):
            check(target, path, mutate(target.seed, mutations))

        changed()


@pytest.mark.parametrize("name, data", read_findings())
def test_findings(name, data, world, targets):
    with surroundings(world, targets[name]) as path:
        check(targets[name], path, data)
