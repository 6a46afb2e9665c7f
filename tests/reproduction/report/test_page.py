"""The page and its Markdown: verdicts with their rule, numbers and circumstances."""

import re
from html import unescape

import pytest

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.report import build
from fairseq_linformer.reproduction.statistics import OUTCOMES

from ..sample_records import record, trained
from .sample_experiment import RULE, Sample, timed

COMMAND = "run <this> & `that`\n# and more"
SLOW = {"a": 1.0, "b": 3.0, "c": 4.0, "d": 5.0, "e": 2.0}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A claim that fails, at one scale; earlier measurements; and a record of something else."""
    results = tmp_path_factory.mktemp("results")
    found = timed(SLOW, command=COMMAND, commit="abc")
    for each in (found, timed({"old": 9.0}, identifier="before", made_by="script"), record(seconds=1234.5)):
        ledger.put(each, results)
    return [path.read_text() for path in build.write(results, results / "report.html", None, [Sample()])[:2]]


@pytest.fixture(scope="module")
def page(written):
    return written[0]


@pytest.fixture(scope="module")
def text(written):
    return written[1]


def element(page, name, tag):
    """From an element with an identifier to the next end of its tag."""
    start = page.index(f'<{tag} id="{name}"') if f'<{tag} id="{name}"' in page else page.index(f'id="{name}"')
    return page[start : page.index(f"</{tag}>", start)]


def test_a_verdict_with_its_numbers_and_its_rule(page):
    article = element(page, "claim-figure-9", "article")
    assert '<span class="badge does-not-hold">' in article and "cpu, n = 64" in article
    assert "It is <strong>fast</strong>." in article and "Figure 9, section 8" in article
    assert "<strong>Rule:</strong> Holds if every time is at most <code>2</code> s." in article
    numbers = re.findall(r"<li>(.*?)</li>", article)
    assert numbers == ["b: 3 s", "c: 4 s", "d: 5 s", "a: 1 s", "e: 2 s", "a remark"]
    shown, _, more = article.partition("<details>")
    assert re.findall(r"<li>(.*?)</li>", shown) == numbers[:4] and "2 more" in more


def test_the_first_table_leads_to_the_claims(page):
    table = element(page, "claims", "section")
    assert '<a href="#claim-figure-9">Figure 9, section 8</a>' in table
    assert "<strong>does not hold</strong> (cpu, n = 64)" in table and "b: 3 s; c: 4 s; 3 more" in table


def test_verdicts_are_counted(page):
    counts = re.findall(r'</span> ([a-z ]+)</span> <span class="count">(\d+)</span>', page[: page.index("</header>")])
    assert counts == [*zip(OUTCOMES, ["0", "1", "0", "0"], strict=True)]


def test_a_chart_has_its_numbers(page):
    figure = element(page, Sample.picture, "figure")
    assert "<svg" in figure and "Figure 9: &lt;times&gt;" in figure and "A note." in figure
    assert '<th scope="row" class="number">2</th>' in figure
    assert re.findall(r'<td class="number">([^<]*)</td>', figure) == [
        "0.5",
        "2.5",
        "3.5",
        "4.5",
        "1.5",
        "1",
        "3",
        "4",
        "5",
        "2",
    ]


def test_tables_are_in_their_section(page):
    section = element(page, "figure-9", "section")
    assert '<table aria-label="figure-9-cpu">' in section
    row = section[section.index('<th scope="row">b</th>') :].partition("</tr>")[0]
    assert re.findall(r'<td class="number">([^<]*)</td>', row) == ["3.00", "2.50 to 3.50", "3"]


def test_where_the_numbers_are_from(page):
    mine, earlier = re.findall(r'<ul class="sources">(.*?)</ul>', element(page, "figure-9", "section"), re.DOTALL)
    assert '<a href="#record-figure-9-cpu">' in mine and "#record-before" not in mine
    assert "cpu scale; abacus, 2 cores; 2026-01-02; commit abc;" in mine
    assert "<code>run &lt;this&gt; &amp; `that`\n# and more</code>" in mine
    assert '<a href="#record-before">' in earlier and "#record-figure-9-cpu" not in earlier


def test_each_record_has_circumstances_of_its_own(tmp_path):
    for scale, commit in (("cpu", "here"), ("gpu", "there")):
        ledger.put(timed({"a": 1.0}, scale, commit=commit, command=f"run {scale}"), tmp_path)
    page, text = (path.read_text() for path in build.write(tmp_path, tmp_path / "report.html", None, [Sample()])[:2])
    (sources,) = re.findall(r'<ul class="sources">(.*?)</ul>', element(page, "figure-9", "section"), re.DOTALL)
    listed = re.findall("<li>(.*?)</li>", sources), re.findall("^- `figure-9-.*$", text, re.MULTILINE)
    for gpu, cpu in listed:
        assert all(said in gpu for said in ("figure-9-gpu", "gpu scale", "commit there", "run gpu"))
        assert all(said in cpu for said in ("figure-9-cpu", "cpu scale", "commit here", "run cpu"))


def test_earlier_measurements_stand_apart(page):
    section = element(page, "figure-9", "section")
    before, _, after = section.partition("<details>\n<summary>")
    assert 'id="earlier-chart"' in after and '<table aria-label="before">' in after
    assert '<table aria-label="figure-9-cpu">' in before and f'id="{Sample.picture}"' in before


def test_every_record_is_in_the_ledger(page):
    assert re.findall(r'<article class="record" id="record-([^"]+)"', page) == ["before", "figure-9-cpu", "thing"]
    article = element(page, "record-thing", "article")
    fields = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", article))
    assert fields == {
        "command": "<code>true</code>",
        "measured": "1 numbers, 0 curves",
        "scale": "cpu",
        "hardware": "abacus, 2 cores",
        "data": "none",
        "commit": "abc",
        "date": "2026-01-02",
        "time": "1,234 s",
        "versions": "python 3.11, torch 2.13",
    }
    assert "<p>a thing.</p>" in article and "cpu scale; abacus, 2 cores; 2026-01-02; commit abc" in article


def test_links_and_identifiers(page):
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(identifiers)


def test_markdown(text):
    claim = "| Figure 9, section 8 | It is **fast**. | **does not hold** (cpu, n = 64) | b: 3 s; c: 4 s; 3 more |"
    assert claim in text and RULE in text
    verdict = text[text.index("**does not hold** at scale cpu, n = 64") :]
    assert re.findall("^- (.*)$", verdict, re.MULTILINE)[:6] == [
        "b: 3 s",
        "c: 4 s",
        "d: 5 s",
        "a: 1 s",
        "e: 2 s",
        "a remark",
    ]
    table = text[text.index("| model | seconds | lowest to highest | runs |\n| --- | --- | --- | --- |\n") :]
    assert "| a | 1.00 | 0.50 to 1.50 | 3 |\n" in table
    assert "| 2 | 1 | 3 | 4 | 5 | 2 |\n\nA note.\n" in text  # behind the chart
    source = "cpu scale; abacus, 2 cores; 2026-01-02; commit abc; ``run <this> & `that` # and more``"
    assert f"- `figure-9-cpu`: {source}\n" in text
    positions = [
        text.index(part) for part in ("| a | 1.00 |", "A note.", "| old | 9.00 |", "- `figure-9-cpu`:", "- `before`:")
    ]
    assert positions == sorted(positions) and text.count("| old |") == 1 and "`thing`" not in text


def test_what_is_not_measured_says_so(tmp_path):
    ledger.put(record(), tmp_path)
    page, text = (path.read_text() for path in build.write(tmp_path, tmp_path / "report.html", None, [Sample()])[:2])
    section = element(page, "figure-9", "section")
    assert '<span class="badge not-measured">' in section and "at the scale" not in section and "<li>" not in section
    assert "<code>fairseq-linformer reproduce figure-9 --data FOLDER</code>" in section
    assert "sources" not in section and "<details>" not in section
    assert "Verdict: **not measured**.\n" in text


@pytest.mark.slow
def test_a_figure_of_the_registry(tmp_path):
    """Figure 3 (a) from a record of ``reproduce``, in the report of all experiments but no drawing twice."""
    ledger.put(trained({"roberta": 5.0, "k=32": 5.1, "k=16": 5.5, "k=8": 6.0}), tmp_path)
    page = unescape(build.write(tmp_path, tmp_path / "report.html")[0].read_text())
    section = element(page, "figure-3a", "section")
    figure = element(section, "curves-figure-3a-cpu", "figure")
    assert all(f">{name}</text>" in figure for name in ("roberta", "k=32", "k=16", "k=8", "without context: 256"))
    # At update 200 seed 2 of k=16 has 2^5.5; at 100 all have 2^7.5.
    assert (
        re.search(r'<th scope="row" class="number">200</th>.*<td class="number">45.25</td>', figure, re.DOTALL)
        and "181" in figure
    )
    assert '<span class="badge holds">' in element(page, "claim-figure-3a", "article")
    assert '<td class="number">44.94 to 45.57</td>' in section
    text = (tmp_path / "report.md").read_text()
    assert "| k=16 | 45.25 | 44.94 to 45.57 | 3 | 1.414 |" in text
    assert page.count('class="badge not-measured"') > 20 and page.count("Not measured.</strong>") > 10
