"""The report in the repository is the one that its records give, and it stands alone."""

import re
import shutil
from pathlib import Path

import matplotlib
import pytest

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.paper import CELLS
from fairseq_linformer.reproduction.registry import claims, find
from fairseq_linformer.reproduction.report import build

ROOT = Path(__file__).parents[3]
RESULTS, PAGE, README = ROOT / "results", ROOT / "results/report.html", ROOT / "README.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


@pytest.fixture(scope="module")
def texts():
    """The report built again."""
    return build.build(RESULTS, PAGE, README)


@pytest.mark.slow
def test_the_committed_report_is_up_to_date(texts, page):
    """Another version of matplotlib may draw a tick elsewhere; the numbers of a picture are in the page."""
    same_pictures = f'{build.GENERATOR}{matplotlib.__version__}">' in page
    for path, text in texts.items():
        there = path.read_text()
        if not same_pictures:
            there, text = (
                re.sub(r"<svg.*?</svg>|matplotlib [\d.]+", "", each, flags=re.DOTALL) for each in (there, text)
            )
        assert there == text, f"{path} is not made of these records; run `fairseq-linformer report`"
    assert {*RESULTS.glob("report*")} == {path for path in texts if path.parent == RESULTS}
    assert len(texts) == 6


@pytest.mark.parametrize("name", ["theorem-2", "theorem-2-cpu"])
def test_a_changed_number_is_noticed(name, tmp_path, monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(build, "draw", lambda chart: "<svg></svg>\n")
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    found = ledger.read(RESULTS / f"{name}.json")
    i, m = next(
        (i, m) for i, m in enumerate(found.measurements) if m.metric == "spectral_within_eps" and 0 < m.value < 1
    )
    other = m.model_copy(update={"value": m.value / 2, "interval": m.interval and (0.0, m.interval[1])})
    several = [*found.measurements[:i], other, *found.measurements[i + 1 :]]

    def markdown():
        return build.build(tmp_path, tmp_path / "report.html", None, [find("theorem-2")])[tmp_path / "report.md"]

    before = markdown()
    assert markdown() == before
    ledger.put(found.copy_with(measurements=several), tmp_path)
    assert markdown() != before


def test_every_claim_and_cell_is_in_the_page(page):
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(CELLS) | {f"claim-{name}" for name in claims()} <= set(identifiers) and not set(CELLS) & set(claims())
    assert {f"record-{path.stem}" for path in RESULTS.glob("*.json")} <= set(identifiers)
    assert len(re.findall("<figure ", page)) > 20


def test_the_page_refers_to_nothing_outside(page):
    assert "<script" not in page and "@import" not in page and not re.findall(r"\b(?:src|xlink:href)=", page)
    assert set(re.findall(r'href="([^"#][^"]*)"', page)) == {"data:,"}
    assert set(re.findall(r"url\(([^)])", page)) <= {"#"}
    assert set(re.findall(r"https?://[^\s\"<)]+", page)) <= {"http://www.w3.org/2000/svg"}
