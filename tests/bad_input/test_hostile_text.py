"""What checkpoints say is text in model cards: no HTML, no links, no YAML."""

import re

import pytest
import yaml

from fairseq_linformer.checkpoints.model_card import write_card
from fairseq_linformer.huggingface import LinformerPreTrainedConfig

HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(1)>[a](javascript:alert(1))\"'|`&"


@pytest.mark.parametrize("license", [HOSTILE, "mit\npipeline_tag: evil", "[mit]"])
def test_model_card(license, tmp_path):
    details = {
        "imported": {"name": HOSTILE, "hub": HOSTILE, "license": license, "sha256": HOSTILE, "lm_head": HOSTILE},
        "finetuned": {"data": f"a\nb {HOSTILE}", "commit": HOSTILE, "splits": {}},
    }
    config = LinformerPreTrainedConfig(
        vocab_size=9,
        classification_head_name=HOSTILE,
        id2label={0: HOSTILE, 1: "b"},
        fairseq=details,
        architectures=["LinformerForSequenceClassification"],
    )
    (tmp_path / "tokenizer.json").touch()
    for onnx in (None, {"max_positions": 9, "int8": True, "pooling": None}):
        write_card(tmp_path, config, onnx)
        _, front, body = (tmp_path / "README.md").read_text().split("---\n", 2)
        front = yaml.safe_load(front)
        assert (front["license"], front["base_model"], front["pipeline_tag"]) == (
            license,
            HOSTILE,
            "text-classification",
        )
        code = re.search(r"```python\n(.*?)\n```", body, flags=re.DOTALL)[0]  # compiled, it is only a string
        compile(code.strip("`").removeprefix("python"), "card", "exec")
        body = body.replace(code, "")
        assert not re.search(r"<(script|img|/)|[^\\]\[a\]\(", body)
        cells = [len(re.findall(r"(?<!\\)\|", line)) for line in body.splitlines() if line.startswith("|")]
        assert set(cells) == {3}
