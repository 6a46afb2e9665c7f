"""What records and checkpoints say is text in reports and model cards: no HTML, no links, no YAML."""

import csv
import re
from html.parser import HTMLParser

import pytest
import yaml

from fairseq_linformer.checkpoints.model_card import build_model_card
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.report import build

from ..reproduction.report.sample_experiment import Sample, timed

HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(1)>[a](javascript:alert(1))\"'|`&"


class Elements(HTMLParser):
    """Names of the elements, attributes and targets of a page."""

    def __init__(self):
        super().__init__()
        self.names, self.attributes, self.targets = set(), set(), set()

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.targets |= {value for name, value in attributes if name == "href"}


def outside_code(markdown: str) -> str:
    """Markdown without code, in which everything is text."""
    return re.sub(r"(`+).*?\1", "", markdown)


def test_reports(tmp_path):
    record = timed(
        {HOSTILE: 1.0},
        command=f"fairseq-linformer {HOSTILE}",
        data=HOSTILE,
        hardware={"processor": HOSTILE, "cores": 2},
        versions={"python": HOSTILE},
    )
    ledger.put(record, tmp_path / "results")
    (tmp_path / "README.md").write_text(f"# Title\n{build.BEGIN}\n{build.END}\n")
    build.write(tmp_path / "results", tmp_path / "results/report.html", tmp_path / "README.md", [Sample()])
    page = Elements()
    page.feed((tmp_path / "results/report.html").read_text())
    assert "td" in page.names and not page.names & {"script", "img"} and "onerror" not in page.attributes
    assert not [target for target in page.targets if "javascript" in (target or "")]
    for name in ("results/report.md", "README.md"):
        text = outside_code((tmp_path / name).read_text())
        assert not re.search(r"<(script|img|/)|\]\(javascript", text), name
    for picture in (tmp_path / "results").glob("*.svg"):
        assert "<script" not in picture.read_text()
    assert [*csv.DictReader((tmp_path / "results/report.csv").read_text().splitlines())]


@pytest.mark.parametrize("license", [HOSTILE, "mit\npipeline_tag: evil", "[mit]"])
def test_model_card(license):
    details = {
        "cfg": {"model": {"_name": HOSTILE}, "task": {"_name": HOSTILE, "data": f"a\nb {HOSTILE}"}},
        "imported": {"name": HOSTILE, "hub": HOSTILE, "license": license, "sha256": HOSTILE, "lm_head": "new"},
        **dict.fromkeys(("num_updates", "epoch", "val_loss", "best"), HOSTILE),
        "versions": {"fairseq": HOSTILE, "fairseq_linformer": HOSTILE},
    }
    card = build_model_card(details, LinformerConfig(vocab_size=9), HOSTILE, [HOSTILE, "b"], True)
    _, front, body = card.split("---\n", 2)
    front = yaml.safe_load(front)
    assert (front["license"], front["base_model"], front["pipeline_tag"]) == (license, HOSTILE, "text-classification")
    assert not re.search(r"<(script|img|/)|[^\\]\[a\]\(", body)
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in body.splitlines() if line.startswith("|")]
    assert set(cells) == {3}
