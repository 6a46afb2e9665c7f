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
from .targets import SLOW, TARGETS, check, surroundings

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FINDINGS = sorted((Path(__file__).parent / "corpus").iterdir())
"""Inputs ``TARGET--HASH`` that a parser once took for a program, or answered with a wrong error."""
MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.floats(0, 1), st.integers(0, 1 << 16)), min_size=1, max_size=4
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, in which nothing may be executed."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / EXECUTED).exists()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_seed_is_accepted(target, world):
    with surroundings(world, target) as path:
        assert check(target, path, target.content(world)) == ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in TARGETS])
def test_changed_files(name, world):
    target = TARGETS[name]
    seed = target.content(world)
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
            check(target, path, mutate(seed, mutations))

        changed()


@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.name)
def test_findings(file, world):
    target = TARGETS[file.name.partition("--")[0]]
    with surroundings(world, target) as path:
        check(target, path, file.read_bytes())
