"""The part of a model card that is only for ONNX: how to run the graph without PyTorch, fairseq and this package."""

from typing import Any

from .model_card import OnnxUsage

_FAST = """\
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
batch = tokenizer.encode_batch({texts})
input_ids = np.array([row.ids for row in batch])
attention_mask = np.array([row.attention_mask for row in batch])"""
_SLOW = """\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER", trust_remote_code=True)
batch = tokenizer({texts}, padding=True, truncation=True, return_tensors="np")
input_ids, attention_mask = batch["input_ids"], batch["attention_mask"]"""
_NO_TOKENIZER = """\
input_ids = np.array([[0, 5, 6, 2], [0, 7, 2, 1]])  # <s> ... </s>, and <pad> after a shorter one
attention_mask = (input_ids != 1).astype(np.int64)"""
_RUN = """\
import numpy as np
import onnxruntime
{tokenize}
session = onnxruntime.InferenceSession("FOLDER/model.onnx")
(logits,) = session.run(["logits"], {{"input_ids": input_ids, "attention_mask": attention_mask}})
print({result})"""


def describe_usage(config: Any, has_head: bool, tokenizer: str | None, settings: dict[str, Any]) -> OnnxUsage:
    """Describe how to run the model.

    Args:
        config: the ``LinformerPreTrainedConfig``.
        has_head: the output is that of a classification head, not of the masked language model.
        tokenizer: ``fast`` (``tokenizer.json``), ``slow``, or None without a tokenizer.
        settings: ``max_positions``, ``opset`` and ``int8`` of the graph.
    """
    texts = '["First sentence.", "Another sentence, which is longer."]' if has_head else '["A <mask> sentence."]'
    tokenize = {"fast": _FAST, "slow": _SLOW, None: _NO_TOKENIZER}[tokenizer].format(texts=texts)
    if not has_head:
        result = "logits.argmax(-1).tolist()"
    elif config.problem_type == "regression" or config.num_labels == 1:
        result = "logits[:, 0].tolist()"
    else:
        names = [config.id2label[i] for i in range(config.num_labels)]
        result = f"[{names!r}[i] for i in logits.argmax(-1)]"
    packages = {"fast": " and tokenizers", "slow": " and transformers", None: ""}[tokenizer]
    shape = "(sentences, classes)" if has_head else "(sentences, tokens, entries of the dictionary)"
    n = settings["max_positions"]
    summary = (
        f"`model.onnx` reads any number of sentences of up to {n} tokens, padded on the right, and returns logits "
        f"{shape}. It needs numpy, onnxruntime{packages}, and neither PyTorch nor fairseq:"
    )
    code = _RUN.format(tokenize=tokenize, result=result).splitlines()
    precision = "int8 weights of linear layers, embeddings, E and F" if settings["int8"] else "fp32"
    rows = [("longest input of the graph", n), ("ONNX opset", settings["opset"]), ("precision", precision)]
    return OnnxUsage(summary, ["```python", *code, "```"], rows)
