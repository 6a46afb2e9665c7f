"""Which files a report is written to, which it never overwrites, and the README's part."""

import csv
import re
from dataclasses import replace
from html import escape

import pytest

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.report import build
from fairseq_linformer.reproduction.report.build import BEGIN, END, PICTURES

from .sample_experiment import Sample, timed

README = f"# Title\n\nbefore\n{BEGIN}\nSTALE\n{END}\nafter\n"
FILES = ["report.html", "report.md", "report.csv", "report-curves-figure-3a-cpu.svg", "README.md"]


@pytest.fixture(autouse=True)
def quick_pictures(monkeypatch):
    """Instead of matplotlib's, which ``test_charts.py`` tests."""
    monkeypatch.setattr(build, "draw", lambda chart: f'<svg xmlns="x">{escape(str(chart))}</svg>\n')


@pytest.fixture
def results(tmp_path):
    ledger.put(timed({"a": 1.0, "b": 1.5}), tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def readme(tmp_path):
    (tmp_path / "README.md").write_text(README)
    return tmp_path / "README.md"


def write(results, readme=None, out=None, experiment=None):
    return build.write(results, out or results / "report.html", readme, [experiment or Sample()])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines(results):
    """The CSV next to the page."""
    return [*csv.DictReader((results / "report.csv").read_text().splitlines())]


# Files


def test_files(results, readme):
    assert [path.name for path in write(results, readme)] == FILES
    assert [path.name for path in write(results)] == FILES[:3]
    assert all(path.is_file() for path in write(results, readme))


def test_the_same_records_give_the_same_bytes(results, readme, tmp_path, monkeypatch):
    write(results, readme)
    first = contents(tmp_path)
    monkeypatch.setattr("time.time", lambda: 2e9)
    write(results, readme)
    assert contents(tmp_path) == first
    ledger.put(timed({"a": 1.0, "b": 1.25}), results)
    write(results, readme)
    # The README has a number only where it is short.
    assert [path.name for path, text in contents(tmp_path).items() if text == first[path]] in ([], ["README.md"])


def test_without_experiments_those_of_the_registry_are_used(results, monkeypatch):
    monkeypatch.setattr(build, "experiments", lambda: [Sample()])
    assert build.build(results, results / "report.html") == build.build(
        results, results / "report.html", None, [Sample()]
    )


def test_nothing_is_written_about_a_rejected_ledger(results, readme, tmp_path):
    path = results / "figure-9-cpu.json"
    path.write_text(path.read_text().replace('"seconds"', '"minutes"'))
    before = contents(tmp_path)
    for folder, match in (
        (results, "figure-9-cpu.json is not a record"),
        (tmp_path / "nowhere", "nowhere"),
        (tmp_path, str(tmp_path)),
    ):
        with pytest.raises(ValueError, match=match):
            write(folder, readme, results / "report.html")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["page.txt", "page", "page.htm"])
def test_a_page_ends_in_html(name, results, tmp_path):
    with pytest.raises(ValueError, match=f"--out.*{name}"):
        write(results, out=tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_page_below_a_file_is_rejected(results, readme):
    with pytest.raises(ValueError, match="README.md"):
        write(results, out=readme / "page.html")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES[:4])
def test_files_of_others_are_never_overwritten(name, results, readme, tmp_path):
    write(results, readme)
    path, before = results / name, readme.read_text()
    for content in (b"mine", b"", b"caf\xe9", None):
        path.unlink()
        path.mkdir() if content is None else path.write_bytes(content)
        there = contents(tmp_path)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            write(results, readme)
        assert contents(tmp_path) == there and readme.read_text() == before
    path.rmdir()
    assert path in write(results, readme)


def test_a_file_that_only_mentions_the_report_is_not_its_own(results):
    """What marks it stands near the beginning."""
    for path in write(results):
        text = path.read_text()
        path.write_text("x" * 2000 + text)
        with pytest.raises(ValueError, match=path.name):
            write(results)
        path.write_text(text)


def test_what_earlier_versions_wrote_is_replaced(results):
    """Their page, Markdown and CSV began like this."""
    (results / "report.html").write_text(f'{build.GENERATOR}3.5.1">')
    (results / "report.md").write_text("# The paper\n\nMade by `fairseq-linformer report` from records")
    (results / "report.csv").write_text("identifier,where,paper,experiment,other columns\n")
    assert len(write(results)) == 3 and "other columns" not in (results / "report.csv").read_text()


# The README's part


def test_the_part_between_the_marks_is_replaced(results, readme):
    write(results, readme)
    text = readme.read_text()
    assert text.startswith(f"# Title\n\nbefore\n{BEGIN}\n| claim |") and text.endswith(f"\n{END}\nafter\n")
    assert "STALE" not in text and text.count(BEGIN) == text.count(END) == 1
    assert "| It is **fast**. | Figure 9, section 8 | **holds** (cpu, n = 64) | a: 1 s |\n" in text
    assert "![Figure 9: <times>](results/report-curves-figure-3a-cpu.svg)" in text
    assert "[results/report.html](results/report.html)" in text


@pytest.mark.parametrize(
    "text",
    [
        "no marks",
        f"{END} {BEGIN}",
        BEGIN,
        END,
        "",
        f"{END}\n{BEGIN}\n",
        f"`{BEGIN}` is a mark\n{END}\n",
        f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n",
    ],
)
def test_a_readme_without_marks_is_rejected(text, results, readme, tmp_path):
    readme.write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=BEGIN):
        write(results, readme)
    assert contents(tmp_path) == before


def test_the_rest_of_the_readme_keeps_its_line_ends_and_its_link(results, readme, tmp_path):
    (tmp_path / "real.md").write_bytes(README.replace("\n", "\r\n").encode())
    readme.unlink()
    readme.symlink_to("real.md")
    write(results, readme, tmp_path / "a page.html")
    text = (tmp_path / "real.md").read_bytes().decode()
    assert readme.is_symlink()
    assert text.startswith(f"# Title\r\n\r\nbefore\r\n{BEGIN}") and text.endswith(f"{END}\r\nafter\r\n")
    assert "(a%20page-curves-figure-3a-cpu.svg)" in text and "[a page.html](a%20page.html)" in text
    assert "[a page.html](a%20page.html)" in (tmp_path / "a page.md").read_text()


def test_a_readme_that_is_no_text_is_rejected(results, tmp_path):
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "latin.md", tmp_path / "folder", tmp_path / "missing.md"):
        with pytest.raises(ValueError, match=f"--readme.*{path}"):
            write(results, path)
    assert not (results / "report.html").exists()


def test_the_readme_is_not_a_file_of_the_report(results, tmp_path):
    readme = tmp_path / "page.md"
    readme.write_text(README)
    with pytest.raises(ValueError, match="--readme.*page.md"):
        write(results, readme, tmp_path / "page.html")
    assert readme.read_text() == README


def test_the_first_two_pictures(results, readme):
    """Those for the README, in its order; a chart of an experiment without records is none of them."""

    class Several(Sample):
        def charts(self, records):
            (chart,) = super().charts(records) or super().charts([timed({"a": 1.0})])
            names = [PICTURES[2] + "64", "unknown", PICTURES[1] + "cpu", PICTURES[0] + "gpu", PICTURES[0] + "cpu"]
            return [type(chart)(name, name, "n", "s", chart.series) for name in names]

    write(results, readme, experiment=Several())
    names = [f"report-{PICTURES[0]}gpu.svg", f"report-{PICTURES[1]}cpu.svg"]
    assert re.findall(r"!\[.*\]\(results/(.*)\)", readme.read_text()) == names
    assert sorted(path.name for path in results.glob("*.svg")) == sorted(names)
    assert build.build(results, results / "report.html", readme, [Several()]).keys() >= {
        results / name for name in names
    }
    ledger.put(timed({"a": 1.0}, identifier="figure-9-cpu", experiment="other"), results)
    write(results, readme, experiment=Several())
    assert "![" not in readme.read_text() and not [*results.glob("*.svg")]


def test_a_picture_has_colors_of_its_own(results, readme):
    write(results, readme)
    text = (results / FILES[3]).read_text()
    assert re.match(r"<svg[^>]*><style>", text) and text.count("<style>svg{") == 1 and "prefers-color-scheme" in text
    assert "<style>svg{" not in (results / "report.html").read_text()


def test_pictures_of_an_earlier_readme_are_removed(results, readme):
    write(results, readme)
    made = (results / FILES[3]).read_text()
    kept = {
        "report-mine.svg": made,
        "report-curves-figure-3a-mine.svg": "<svg/>",
        "other-curves-figure-3a-old.svg": made,
    }
    old = [f"report-{prefix}old.svg" for prefix in PICTURES]
    for name, content in {**kept, **dict.fromkeys(old, made)}.items():
        (results / name).write_text(content)
    write(results)  # without a README
    assert all((results / name).exists() for name in [*kept, *old])
    write(results, readme)
    assert {path.name for path in results.glob("*.svg")} == {*kept, FILES[3]}


def test_a_name_with_brackets_is_no_pattern(results, readme):
    (results / "page1-curves-figure-3a-old.svg").write_text("<svg><style>svg{color:")
    write(results, readme, results / "page[1].html")
    assert (results / "page1-curves-figure-3a-old.svg").exists()


# CSV


def test_every_claim_and_cell_is_in_the_csv(results):
    ledger.put(timed({"a": 3.0}, "gpu", n=None, configuration={"layers": 2}), results)
    write(results)
    claims, cells = lines(results)[:2], lines(results)[2:]
    common = {
        "identifier": "figure-9",
        "where": "Figure 9, section 8",
        "paper": "It is **fast**.",
        "experiment": "figure-9",
    }
    nothing = dict.fromkeys(("model", "unit", "lowest", "highest", "repetitions"), "")
    assert claims == [
        {**common, **nothing, "scale": "gpu", "n": "", "ours": "does not hold", "records": "figure-9-gpu"},
        {**common, **nothing, "scale": "cpu", "n": "64", "ours": "holds", "records": "figure-9-cpu"},
    ]
    cell = {"identifier": "table-9-time-n-64-k-16", "where": "Table 9: time, n = 64; k = 16", "paper": "1.5", "n": ""}
    cell |= {"experiment": "figure-9", "unit": "s", "repetitions": "3"}
    assert cells == [
        {
            **cell,
            "scale": "gpu",
            "model": "a",
            "ours": "3",
            "lowest": "2.5",
            "highest": "3.5",
            "records": "figure-9-gpu",
        },
        {
            **cell,
            "scale": "cpu",
            "model": "a",
            "ours": "1",
            "lowest": "0.5",
            "highest": "1.5",
            "records": "figure-9-cpu",
        },
        {**cell, "scale": "cpu", "model": "b", "ours": "1.5", "lowest": "1", "highest": "2", "records": "figure-9-cpu"},
    ]


def test_what_is_not_measured_is_in_the_csv(results):
    (results / "figure-9-cpu.json").unlink()
    once = timed({"a": 1.23456}, experiment="other")
    ledger.put(once, results)
    write(results)
    claim, cell = lines(results)
    assert (claim["ours"], claim["scale"], claim["records"]) == ("not measured", "", "")
    assert cell["paper"] == "1.5" and cell["ours"] == "not measured"
    assert not any(cell[name] for name in ("scale", "model", "unit", "lowest", "highest", "repetitions", "records"))


def test_numbers_in_the_csv_have_four_digits(results):
    m = timed({"a": 1.23456}).measurements[0]
    once = m.model_copy(update={"model": "b", "interval": None, "repetitions": 1})
    ledger.put(timed({"a": 1.0}).copy_with(measurements=[m, once]), results)
    write(results)
    numbers = [[cell[name] for name in ("ours", "lowest", "highest", "repetitions")] for cell in lines(results)[1:]]
    assert numbers == [["1.235", "0.7346", "1.735", "3"], ["1.235", "", "", "1"]]


def test_prose_that_names_the_mark_stays(results, readme):
    readme.write_text(f"`{BEGIN}` is a mark\n\nprose\n\n{BEGIN}\nSTALE\n{END}\n")
    write(results, readme)
    text = readme.read_text()
    assert text.startswith(f"`{BEGIN}` is a mark\n\nprose\n\n{BEGIN}\n") and "STALE" not in text


def test_a_text_that_quotes_the_mark_is_someone_elses(results):
    notes = results / "report.md"
    notes.write_text(f"notes: {build.MADE_BY} and then mine")
    with pytest.raises(ValueError, match="report.md"):
        write(results)
    assert notes.read_text().endswith("mine")


def test_a_cell_of_several_records_names_them_all(results):
    """Such as an average over tasks."""

    class Average(Sample):
        def paper_cells(self, records):
            ((cell, (first, *_)),) = super().paper_cells(records)
            return [(cell, [replace(first, records=("figure-9-cpu", "figure-9-gpu"))])]

    write(results, experiment=Average())
    assert lines(results)[-1]["records"] == "figure-9-cpu figure-9-gpu"
