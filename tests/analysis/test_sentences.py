"""The stream of sentences: packed or by lines, short ones skipped, and counts."""

import json

from fairseq_linformer.analysis.loading import load_model

from .conftest import TEXT, N


def test_packed_sentences_equal_those_of_masked_lm(model, sentences):
    ids = [model.tokenizer(line, add_special_tokens=False)["input_ids"] for line in TEXT * 20]
    stream = [token for line in ids for token in [*line, 2]]
    num_full, remainder = divmod(len(stream), N - 1)
    expected = [[0, *stream[i * (N - 1) : (i + 1) * (N - 1)]] for i in range(num_full)]
    text = sentences(model)
    assert list(text) == expected == list(text)
    assert (text.skipped, text.truncated) == (int(remainder > 0), 0)


def test_lines_are_truncated_skipped_and_counted(model, sentences, tmp_path):
    lengths = [2 + len(model.tokenizer(line, add_special_tokens=False)["input_ids"]) for line in TEXT]
    n = sorted(lengths)[1]
    text = sentences(model, n=n, break_mode="eos")
    full = list(text)
    assert all(len(s) == n and s[0] == 0 and s[-1] == 2 for s in full)
    assert (text.skipped, text.truncated) == (20 * sum(x < n for x in lengths), 20 * sum(x > n for x in lengths))
    assert len(full) == 60 - text.skipped


def test_special_tokens_of_a_model_of_transformers(bert, sentences):
    """[CLS] and [SEP]."""
    first = next(iter(sentences(load_model(str(bert)), n=4, break_mode="eos")))
    assert (first[0], first[-1]) == (3, 4)


def test_a_row_is_a_sentence(model, sentences, tmp_path):
    """Even with line breaks; no option is needed."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": "a dog\nsat"}) + "\n" for _ in range(3)))
    assert len(list(sentences(model, tmp_path / "rows.jsonl", n=4))) == 3
