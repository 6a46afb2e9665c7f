"""The report says what the ledger says, loudly where that is nothing, and the same each time."""

import dataclasses
import re
from pathlib import Path

import matplotlib
import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduce import ledger, report
from fairseq_linformer.reproduce.catalogue import ELSEWHERE, EXPERIMENTS
from fairseq_linformer.reproduce.claims import CLAIMS
from fairseq_linformer.reproduce.ledger import Measurement
from fairseq_linformer.reproduce.report import charts
from fairseq_linformer.reproduce.report.text import BEGIN, END
from fairseq_linformer.reproduce.report.drawing import draw
from fairseq_linformer.reproduce.report.tables import Table
from fairseq_linformer.reproduce.training_plan import EXPERIMENTS as TRAINED

from .test_ledger import entry

ROOT = Path(__file__).parents[2]
README = f"# Title\n\nbefore\n{BEGIN}\nSTALE\n{END}\nafter\n"


def trained(identifier="figure-3a-cpu", **bits):
    """An entry as ``reproduce`` writes it: bits by model, the same three seeds around them."""
    measured, curves = {"plateau: bits": Measurement(8.0, "bits", None, 1)}, {}
    for name, middle in bits.items():
        seeds = [middle - 0.01, middle, middle + 0.01]
        for seed, value in enumerate(seeds, start=1):
            measured[f"{name}, seed {seed}: bits"] = Measurement(value, "bits", None, 1)
            curves[f"{name}, seed {seed}"] = [[100, 7.5], [200, value]]
        measured[f"{name}: bits"] = Measurement(middle, "bits", [seeds[0], seeds[2]], 3)
        measured[f"{name}: perplexity"] = Measurement(2**middle, "perplexity", [2 ** seeds[0], 2 ** seeds[2]], 3)
    return entry(identifier=identifier, scale="cpu", measured=measured, curves=curves, configuration={"n": 64, "experiment": "figure-3a"}, command="run <this> & that", date="2026-01-02")


@pytest.fixture
def results(tmp_path):
    ledger.write(trained(**{"roberta": 5.0, "k=32": 5.1, "k=16": 5.5, "k=8": 6.0}), tmp_path)
    return tmp_path


def test_a_figure_with_its_numbers_verdicts_and_circumstances(results):
    (page, tables, _) = report.write(results, results / "report.html")
    html = page.read_text()
    section = html[html.index('<section id="figure-3a">') : html.index('<section id="figure-3b">')]
    figure = section[section.index("<figure") : section.index("</figure>")]
    assert 'id="curves-figure-3a-cpu"' in figure and all(f">{name}</text>" in figure for name in ("roberta", "k=32", "k=16", "k=8"))
    assert ">without context: 256</text>" in figure
    # 2^5.5 of seed 2 at update 200, and 2^7.5 at 100: the chart's numbers are perplexities
    assert re.search(r'<th scope="row" class="number">200</th>.*<td class="number">45.25</td>', figure) and "181" in figure
    article = section[section.index('id="claim-figure-3a"') : section.index('id="claim-figure-3a-par"')]
    assert '<span class="badge holds">' in article and CLAIMS["figure-3a"].rule.split(";")[0] in article
    assert "k=16: perplexity 45.25 (44.94 to 45.57, 3 seeds)" in section
    assert article.index("perplexity of k=32 over that of k=16") < article.index("k=8: perplexity")  # what decides first
    row = html[html.index('<a href="#claim-figure-3a">') :]
    assert "<strong>holds</strong> (cpu, n = 64)" in row[:500] and "perplexity of k=16 over that of k=8, mean of 3 seeds" in row[:1000]  # its number is in the first table
    assert "<td>44.94 to 45.57</td>" in section or '<td class="number">44.94 to 45.57</td>' in section
    assert "cpu scale" in section and "2026-01-02" in section and "commit abc" in section and "<code>run &lt;this&gt; &amp; that</code>" in section
    assert '<a href="#entry-figure-3a-cpu">' in section and 'id="entry-figure-3a-cpu"' in html
    said = tables.read_text()
    assert "Verdict: **holds** at the scale cpu, n = 64." in said and "| k=16 | 45.25 | 44.94 to 45.57 | 3 | 1.414 |" in said


def test_a_rule_that_was_another_when_its_runs_began_is_told(results):
    made = trained(**{"roberta": 5.0, "k=32": 5.1})
    rules = {"figure-3a": "An earlier wording.", "figure-3a-par": CLAIMS["figure-3a-par"].rule}
    ledger.write(dataclasses.replace(made, configuration={**made.configuration, "rules": rules}), results)
    for path in report.write(results, results / "report.html")[:2]:
        text = path.read_text()
        assert text.count("When figure-3a-cpu was begun: An earlier wording.") == 1 and text.count("was begun:") == 1
    del rules["figure-3a"]  # a claim that was made later
    ledger.write(dataclasses.replace(made, configuration={**made.configuration, "rules": rules}), results)
    for path in report.write(results, results / "report.html")[:2]:
        assert path.read_text().count("When figure-3a-cpu was begun: there was no rule of this claim.") == 1


def test_what_is_not_measured_is_loud_and_the_papers_numbers_stand_there(results):
    html = report.write(results, results / "report.html")[0].read_text()
    section = html[html.index('<section id="table-3">') : html.index('<section id="scratch">')]
    assert '<span class="badge not-measured">' in section and "Not measured.</strong> <code>fairseq-linformer reproduce table-3</code>" in section
    assert section.count("<strong>not measured</strong>") == 2 * 34  # every cell of both halves that the paper prints
    assert '<th scope="row" class="some">n = 65,536, k = 128</th><td id="table-3-time-n-65536-k-128" class="number">20x</td>' in section
    assert all(f'id="{experiment}"' in html for experiment in {claim.experiment for claim in CLAIMS.values()})
    for experiment in {claim.experiment for claim in CLAIMS.values()} - {"figure-3a"}:
        section = html[html.index(f'<section id="{experiment}">') :]
        words = re.search(r"Not measured.</strong> <code>(.*?)</code> measures it", section[: section.index("</section>")])[1].split()
        if words[0] == ELSEWHERE.get(experiment):
            assert (ROOT / words[0]).is_file()
        else:
            assert words[:3] == ["fairseq-linformer", "reproduce", experiment] and experiment in EXPERIMENTS and experiment not in ELSEWHERE
            assert ("--text" in words) == (experiment in TRAINED or experiment == "table-2") and ("--tasks" in words) == (experiment == "table-2")
    assert html.count('class="badge not-measured"') == 1 + sum(claim.experiment != "figure-3a" for claim in CLAIMS.values())


def test_tables_of_the_paper_beside_ours(results):
    cell = {"n=512: seconds of eager": Measurement(3.0, "s", None, 1), "n=512 k=128: eager / linformer": Measurement(1.8, "ratio of times", [1.7, 1.9], 5),
            "n=512 k=128: eager / linformer, largest batch": Measurement(1.02, "ratio of batches", None, 1)}  # fmt: skip
    ledger.write(entry(identifier="benchmark-inference-cpu-fp32-l12", scale="cpu", measured=cell,
                       configuration={"cells": {"a": {"n": 512}}, "layers": 12}), results)  # fmt: skip
    powers = {"linformer": 0.02, "transformer-eager": 0.93}
    power = {f"{name}: exponent of the longer half": Measurement(value, "exponent of n", None, 1) for name, value in powers.items()}
    ledger.write(entry(identifier="benchmark-scaling-cpu-fp32-l2", scale="cpu", measured=power, configuration={"cells": {}, "models": ["linformer"]}), results)
    text = report.write(results, results / "report.html")[1].read_text()
    assert "| n = 512, k = 128 | 1.5x | 1.8x | 1.7 to 1.9 | 1.20 |" in text and "| n = 512, k = 128 | 1.7x | 1.02x |  | 0.60 |" in text
    assert "| linformer | O(n) | O(1) | linformer | n^1.02 |" in text and "| transformer | O(n^2) | O(1) | transformer-eager | n^1.93 |" in text


def test_the_same_ledger_gives_the_same_bytes(results, tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    readme.write_text(README)
    first = {path: path.read_bytes() for path in report.write(results, results / "report.html", readme)}
    assert {path.name for path in first} == {"report.html", "report.md", "report.csv", "README.md", "report-curves-figure-3a-cpu.svg"}
    monkeypatch.setattr("time.time", lambda: 2e9)
    report.write(results, results / "report.html", readme)
    assert {path: path.read_bytes() for path in first} == first


def test_the_part_of_the_readme(results, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(README)
    made = report.write(results, results / "report.html", readme)[3].read_text()
    for name, content in (("figure-3a-old", made), ("figure-3a-mine", "<svg/>"), ("mine", made)):
        (results / f"report-curves-{name}.svg").write_text(content)
    report.write(results, results / "report.html", readme)
    text = readme.read_text()
    assert text.startswith("# Title\n\nbefore\n<!-- report -->\n| where |") and text.endswith("<!-- /report -->\nafter\n") and "STALE" not in text
    claim = CLAIMS["figure-3a"]
    assert f"| {claim.where} | {claim.says} | **holds** (cpu, n = 64) | perplexity of k=16 over that of k=8" in text
    picture = re.search(r"!\[.*\]\((.*\.svg)\)", text)[1]
    assert (tmp_path / picture).is_file() and "prefers-color-scheme" in (tmp_path / picture).read_text()
    assert {path.name for path in results.glob("*.svg")} == {f"report-curves-{name}.svg" for name in ("figure-3a-cpu", "figure-3a-mine", "mine")}
    for wrong in ("no marks", f"{END} {BEGIN}"):
        readme.write_text(wrong)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(ValueError, match="the README has no <!-- report -->"):
            report.write(results, results / "report.html", readme)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_refusals_are_a_sentence_and_nothing_is_written(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = results / "figure-3a-cpu.json"
    path.write_text(path.read_text().replace("7.5", "7.4"))
    for arguments, sentence in (
        (["--results", str(results)], "was changed after it was written"), (["--results", "nowhere"], "nowhere has no ledger entries"),
        (["--results", str(results), "--out", "page.txt"], "--out is page.txt; a file that ends in .html is wanted"),
    ):  # fmt: skip
        with pytest.raises(SystemExit, match=re.escape(sentence)):
            main(["report", *arguments])
    assert not list(tmp_path.rglob("*.html")) and not list(tmp_path.rglob("*.md"))


def test_the_command_leaves_the_readme_alone_for_another_ledger(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    main(["report", "--results", str(results)])
    assert capsys.readouterr().out.split() == [str(results / f"report.{kind}") for kind in ("html", "md", "csv")]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_without_a_readme_no_picture_is_removed(results, tmp_path, capsys):
    pictures = [tmp_path / name for name in ("fig-mine.svg", "fig-curves-figure-3a-cpu.svg", "fig-curves-figure-3a-old.svg")]
    for path in pictures:
        path.write_text("<svg/>")
    main(["report", "--results", str(results), "--out", str(tmp_path / "fig.html")])
    assert all(path.read_text() == "<svg/>" for path in pictures)


def test_charts_draw_what_their_tables_say():
    lines = [charts.Series("one", [[(1, 2.0), (2, 4.0)], [(1, 3.0)]]), charts.Series("two", [[(2, 0.12345)]])]
    chart = charts.Chart("c", "A & B", "n", "s", lines, [("level", 5.0)])
    assert chart.table.head == ["n", "one, run 1", "one, run 2", "two"]
    assert chart.table.rows == [["1", "2", "3", ""], ["2", "4", "", "0.1235"], ["level", "5", "", ""]]
    svg = draw(chart)
    assert "A &amp; B" in svg and "currentColor" in svg and "var(--grid" in svg and "#010203" not in svg and "<metadata" not in svg
    assert svg.count("stroke-dasharray") > 2  # lines differ without colour
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids)) and all(name.startswith("c-") for name in ids)
    with pytest.raises(ValueError, match="the figure c has no points"):
        draw(dataclasses.replace(chart, series=[]))
    heat = charts.Heat("h", "H", ["layer 1"], ["head 1", "head 2"], [[0.25, 1.0]], "share")
    assert heat.table.rows == [["layer 1", "0.25", "1"]] and ">0.25</text>" in draw(heat) and ">1.00</text>" in draw(heat)


def test_cells_are_text_not_markup():
    table = Table(["a", "b"], [["<script>", "x | **y**"]], "n < k")
    assert "&lt;script&gt;" in table.html and "<script>" not in table.html and "x | <strong>y</strong>" in table.html and "n &lt; k" in table.html
    assert table.markdown[-1] == "| <script> | x \\| **y** |"
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        Table(["a", "b"], [["only"]])


# What stands in the repository


def _of_another_matplotlib(html: str) -> bool:
    return f'report, matplotlib {matplotlib.__version__}"' not in html


def test_the_committed_report_and_readme_are_those_of_the_ledger():
    texts = report.made(ROOT / "results", ROOT / "results/report.html", ROOT / "README.md")
    for path, text in texts.items():
        there = path.read_text()
        if path.suffix == ".svg" and _of_another_matplotlib((ROOT / "results/report.html").read_text()):
            continue  # another version draws a tick elsewhere; its numbers stand in the page
        if path.suffix == ".html" and _of_another_matplotlib(there):
            there, text = (re.sub(r"<svg.*?</svg>|matplotlib [\d.]+", "", t, flags=re.DOTALL) for t in (there, text))
        assert there == text, f"{path} is not made of this ledger; run `fairseq-linformer report`"
    assert {p for p in (ROOT / "results").glob("report*") if p not in texts} == set()


def test_a_changed_number_is_noticed(tmp_path):
    """The test above can fail."""
    for path in (ROOT / "results").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name in ("theorem-2.json", "theorem-2-cpu.json"):
        found = ledger.read(tmp_path / name)
        measured = {name: dataclasses.replace(m, value=m.value / 2, spread=m.spread and [m.spread[0] / 4, m.spread[1]]) for name, m in found.measured.items()}
        ledger.write(dataclasses.replace(found, measured=measured), tmp_path)
    texts = report.made(tmp_path, ROOT / "results/report.html", ROOT / "README.md")
    assert texts[ROOT / "README.md"] != (ROOT / "README.md").read_text() and texts[ROOT / "results/report.md"] != (ROOT / "results/report.md").read_text()


def test_nothing_is_overwritten_that_it_did_not_write(results, tmp_path):
    out = tmp_path / "a page.html"
    written = report.write(results, out)
    assert f"in [{out.name}](a%20page.html)." in written[1].read_text()
    assert report.write(results, out) == written  # its own
    for path in written:
        before = path.read_text()
        path.write_text("mine")
        with pytest.raises(ValueError, match=f"{path.name} is there and was not written by this command; nothing is overwritten"):
            report.write(results, out)
        assert path.read_text() == "mine"
        path.unlink()
        path.mkdir()
        with pytest.raises(ValueError, match=f"{path.name} is there and was not"):
            report.write(results, out)
        path.rmdir()
        path.write_text(before)
    readme = out.with_suffix(".md")
    readme.write_text(README)
    with pytest.raises(ValueError, match="--readme is .*a page.md, which the tables of --out .* go into"):
        report.write(results, out, readme)
    assert readme.read_text() == README


def test_the_readme_keeps_what_is_not_the_reports(results, tmp_path):
    """Its line ends, and the link that it is behind."""
    (tmp_path / "real.md").write_bytes(README.replace("\n", "\r\n").encode())
    (tmp_path / "README.md").symlink_to("real.md")
    report.write(results, tmp_path / "a page.html", tmp_path / "README.md")
    text = (tmp_path / "real.md").read_bytes().decode()
    assert (tmp_path / "README.md").is_symlink() and text.startswith("# Title\r\n\r\nbefore\r\n" + BEGIN) and text.endswith(END + "\r\nafter\r\n")
    assert "(a%20page-curves-figure-3a-cpu.svg)" in text and "[a page.html](a%20page.html)" in text
    for path, content in ((tmp_path / "latin.md", b"caf\xe9"), (tmp_path / "folder", None)):
        path.mkdir() if content is None else path.write_bytes(content)
        with pytest.raises(ValueError, match=f"--readme is {path}; it cannot be read as text"):
            report.write(results, tmp_path / "a page.html", path)
    with pytest.raises(ValueError, match="latin.md cannot be written: .*latin.md is not a folder"):
        report.write(results, tmp_path / "latin.md/page.html")


def test_what_an_entry_says_is_no_markup(results):
    """A command with ticks and line ends stays a command, on one line."""
    found = ledger.read(results / "figure-3a-cpu.json")
    ledger.write(dataclasses.replace(found, command="run `this`\n# and that"), results)
    page, text = (path.read_text() for path in report.write(results, results / "report.html")[:2])
    assert "; ``run `this` # and that``" in text and "<code>run `this`\n# and that</code>" in page
