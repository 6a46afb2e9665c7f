"""What checkpoints say is text in model cards: no HTML, no links, no YAML."""

import re

import pytest
import yaml

from fairseq_linformer.checkpoints.model_card import build_model_card
from fairseq_linformer.config import LinformerConfig

HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(1)>[a](javascript:alert(1))\"'|`&"


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
