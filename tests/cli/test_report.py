"""``fairseq-linformer report``."""

import re

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.report import build
from fairseq_linformer.reproduction.report.build import BEGIN, END

from ..reproduction.report.sample_experiment import Sample, timed

README = f"# Title\n{BEGIN}\nSTALE\n{END}\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a README, records in results/, and records in another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "experiments", lambda: [Sample()])
    for folder in ("results", "other"):
        ledger.put(timed({"a": 1.0}), tmp_path / folder)
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def report(capsys, *arguments):
    """Run the command, and return the files that it reports."""
    main(["report", *arguments])
    return capsys.readouterr().out.split()


def pages(*names):
    return [f"{name}.{kind}" for name in names for kind in ("html", "md", "csv")]


def test_default_report_also_writes_the_readme(here, capsys):
    files = report(capsys)
    assert files == [*pages("results/report"), "results/report-curves-figure-3a-cpu.svg", "README.md"]
    assert all((here / name).is_file() for name in files) and "STALE" not in (here / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, files",
    [
        (["--results", "other"], pages("other/report")),
        (["--results", "results"], pages("results/report")),
        (["--out", "new/page.html"], pages("new/page")),
        (["--results", "other", "--out", "page.html"], pages("page")),
    ],
)
def test_other_folders_do_not_write_the_readme(arguments, files, here, capsys):
    assert report(capsys, *arguments) == files
    assert (here / "README.md").read_text() == README
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*.html")) == [files[0]]


def test_readme_option(here, capsys):
    (here / "OTHER.md").write_text(README)
    assert report(capsys, "--results", "other", "--readme", "OTHER.md")[-1] == "OTHER.md"
    assert "other/report.html" in (here / "OTHER.md").read_text() and (here / "README.md").read_text() == README


@pytest.mark.parametrize(
    "arguments, match",
    [
        (["--results", "nowhere"], "nowhere"),
        (["--out", "page.txt"], "--out.*page.txt"),
        (["--readme", "missing.md"], "--readme.*missing.md"),
        (["--results", "damaged"], "damaged/figure-9-cpu.json is not a record"),
    ],
)
def test_invalid_input_prints_one_line_and_writes_nothing(arguments, match, here, capsys):
    path = ledger.put(timed({"a": 1.0}), here / "damaged")
    path.write_text(path.read_text().replace("seconds", "minutes"))
    with pytest.raises(SystemExit, match=match) as stopped:
        main(["report", *arguments])
    assert len(str(stopped.value).splitlines()) == 1
    assert not [path for kind in ("html", "csv", "svg") for path in here.rglob(f"*.{kind}")]
    assert not re.search("figure-9", (here / "README.md").read_text())
