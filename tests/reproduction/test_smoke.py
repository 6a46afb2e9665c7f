"""Every experiment is really run, at the smoke scale, and shows what it measured."""
# ruff: noqa: F811 (fixtures are imported)

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.fairseq_log import read_split
from fairseq_linformer.reproduction import load_all
from fairseq_linformer.reproduction.comparison import branches
from fairseq_linformer.reproduction.page import draw
from fairseq_linformer.reproduction.paper import figure_3
from fairseq_linformer.reproduction.result import read
from fairseq_linformer.reproduction.run import Model, build_job, train_runs
from fairseq_linformer.reproduction.verdict import UNMEASURED

from ..forked_worker import quick_workers  # noqa: F401

pytestmark = pytest.mark.slow
OPTIONS = {"data": "text", "encoder": "encoder", "source": "train.txt", "tasks": "tasks"}
RUNS = [
    ("figure-3", "n=16, k=4, W=1, seed 1"),  # the next two use its runs
    ("table-1", "time"),
    ("table-1", "operations"),
    ("table-2", "imdb: n=16, k=4, W=1, seed 1"),
    ("table-2", "imdb: n=16, RoBERTa, random weights, seed 1"),
    ("table-2", "imdb: n=32, RoBERTa, seed 1"),
    ("table-2", "imdb: n=32, k=8, graded, W=4, seed 1"),
    ("table-2", "imdb: first 4 tokens, seed 1"),
    ("table-3", "time"),
    ("table-3", "memory"),
    ("figure-1", "encoder"),
    ("theorem-1", "heads"),
    ("theorem-2", "heads"),
    ("recall", "recall"),
    ("distillation", "short inputs"),
    ("distillation", "curve n=32, k=8, graded, W=4"),
    ("long-documents", "imdb: pieces, seed 1"),
    ("long-documents", "retrieval: nearest piece"),
    ("long-documents", "retrieval: tf-idf"),
    ("long-documents", "speed: n = 32"),
    ("int8", "speed"),
    ("int8", "imdb"),
    ("speed", "training"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of runs, which experiments share."""
    return tmp_path_factory.mktemp("runs")


WITH_GRAPHS = [("int8", "imdb"), ("int8", "speed"), ("long-documents", "speed: n = 32")]
LONG = dict.fromkeys(WITH_GRAPHS, pytest.mark.nightly)


@pytest.mark.parametrize("name, part", [pytest.param(*run, marks=LONG.get(run, ()), id="-".join(run)) for run in RUNS])
def test_part(name, part, smoke_inputs, runs, tmp_path, quick_workers, capsys):
    module = load_all()[name]
    words = ["reproduce", name, "--scale", "smoke", "--part", part, "--runs", str(runs), "--results", str(tmp_path)]
    for option in module.PARTS["smoke"][part]:
        words += [f"--{option}", str(smoke_inputs / OPTIONS[option])]
    if part.startswith("retrieval"):
        words[words.index("--source") + 1] = str(smoke_inputs / "articles.txt")
    main(words)
    (result,) = read(tmp_path / name.replace("-", "_") / "smoke.json")
    assert result.part.startswith(part) and result.rows
    environment = {**result.environment}
    assert environment.pop("seconds") >= 0 and all(environment.values())  # some parts train for less than 0.05 s
    assert f"reproduce {name} --scale smoke --part" in result.environment["command"]
    for verdict in module.verdicts([result]):
        assert verdict.claim and (verdict.numbers or verdict.outcome == UNMEASURED)
    assert all(table.markdown() for table in module.tables([result]))
    if hasattr(module, "chart") and (panels := module.chart([result])):
        assert "<svg" in draw(panels)


def test_a_branch_continues_with_the_next_batches_and_a_falling_rate(smoke_inputs, runs, quick_workers):
    """A branch at 8 of 10 updates, by which the learning rate falls to 0."""
    sizes, text = figure_3.SIZES["smoke"], smoke_inputs / "text"
    branch = branches(Model(16, 4, local_window=1), 1, sizes)[10]
    trained = train_runs([branch], sizes, runs / "smoke", text)[branch]
    job = build_job(branch, trained.initial_checkpoint, sizes, runs / "smoke", text)
    assert job.folder == trained.folder and job.cfg.checkpoint.continue_once.endswith("_8.pt")
    lines = (trained.folder / "logs/train.txt").read_text().splitlines()
    (last,) = [each for each in read_split(lines, "train") if int(each["train_num_updates"]) == 10]
    assert float(last["train_lr"]) == 0.0
    assert any("(epoch" in line and "@ 8 updates" in line for line in lines)


def test_every_experiment_is_run():
    assert {name for name, _ in RUNS} == set(load_all())
