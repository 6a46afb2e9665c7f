"""Changed files are accepted, or rejected with a ValueError that names them; so are the inputs that found a defect.

Of each file a few changes are tried, always the same; this tries 20,000 others, in processes of at most 12 GiB:

    ulimit -v 12582912; FUZZ_EXAMPLES=20000 python -m pytest -q -n 2 tests/fuzz
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..bad_input.world import EXECUTED
from .mutations import KINDS, mutate
from .targets import NAMES, SLOW, build_targets, check, surroundings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FINDINGS = sorted((Path(__file__).parent / "corpus").iterdir())
"""Inputs ``TARGET--HASH`` that a parser once took for a program, or answered with a wrong error."""
MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.floats(0, 1), st.integers(0, 1 << 16)), min_size=1, max_size=4
)


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
    assert list(targets) == [*NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_is_accepted(name, world, targets):
    with surroundings(world, targets[name]) as path:
        assert check(targets[name], path, targets[name].seed) == ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_changed_files(name, world, targets):
    target = targets[name]
    with surroundings(world, target) as path:

        @settings(
            max_examples=EXAMPLES or (15 if name in SLOW else 40),
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(MUTATIONS)
        def changed(mutations):
            check(target, path, mutate(target.seed, mutations))

        changed()


@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.name)
def test_findings(file, world, targets):
    target = targets[file.name.partition("--")[0]]
    with surroundings(world, target) as path:
        check(target, path, file.read_bytes())
