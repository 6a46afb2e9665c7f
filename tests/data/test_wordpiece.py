"""WordPiece: the tokens of ``transformers``, with the IDs of fairseq's dictionary."""

import json

import pytest

transformers = pytest.importorskip("transformers")

from fairseq.data import Dictionary  # noqa: E402

from fairseq_linformer.cli import main  # noqa: E402
from fairseq_linformer.data.tokenizer import WordPiece  # noqa: E402
from fairseq_linformer.data.wordpiece import SPECIAL_TOKENS, list_tokens, normalize  # noqa: E402

WORDS = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] [ ] ! , mask sep the low ##est ##er new tide ##s was and slow ##ly cafe"
).split()
TEXTS = ["The LOWEST tides!", "", "Café, café", "unknownword new", "a\u00adb 東京 low", "new [MASK] low [SEP]"]


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def bert(request, tmp_path):
    """A tokenizer of BERT; and the path of its file."""
    vocab = {word: i for i, word in enumerate(WORDS)}
    tokenizer = transformers.BertTokenizerFast(vocab=vocab, do_lower_case=request.param)
    tokenizer.save_pretrained(tmp_path / "bert")
    return tokenizer, tmp_path / "bert" / "tokenizer.json"


def test_ids_are_those_of_transformers_by_name(bert):
    theirs, path = bert
    ours = WordPiece(path)
    tokens = list_tokens(ours.model_files["tokenizer.json"])
    for text in TEXTS[:-1]:  # which have no names of special tokens
        expected = [SPECIAL_TOKENS.get(t, t) for t in theirs.convert_ids_to_tokens(theirs(text)["input_ids"])]
        ids, sizes = ours.encode([text])
        assert ["<s>", *(tokens[i] for i in ids)] == expected and sizes.tolist() == [len(expected) - 1]
    ids, _ = ours.encode(TEXTS[-1:])
    if theirs.backend_tokenizer.normalizer.lowercase:
        assert [tokens[i] for i in ids] == ["new", "[", "mask", "]", "low", "[", "sep", "]", "</s>"]
    assert not {tokens.index(name) for name in ("<s>", "<pad>", "<mask>")} & set(ids.tolist())


def test_dictionary_is_fairseqs(bert, tmp_path):
    _, path = bert
    ours = WordPiece(path)
    (tmp_path / "dict.txt").write_text("\n".join(ours.dictionary) + "\n")
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    dictionary.add_symbol("<mask>")
    assert dictionary.symbols == list_tokens(ours.model_files["tokenizer.json"])
    assert WordPiece(path, tmp_path / "dict.txt").encode(TEXTS)[0].tolist() == ours.encode(TEXTS)[0].tolist()
    (tmp_path / "dict.txt").write_text("\n".join(reversed(ours.dictionary)) + "\n")
    with pytest.raises(ValueError, match="dict.txt .*same order"):
        WordPiece(path, tmp_path / "dict.txt")


def test_normalized_file_is_unchanged(bert, tmp_path):
    _, path = bert
    content = normalize(path.read_bytes(), path)
    assert normalize(content, path) == content
    (tmp_path / "again.json").write_bytes(content)
    assert WordPiece(tmp_path / "again.json").checksums == WordPiece(path).checksums


def test_corpus_and_task_have_the_same_ids(bert, tmp_path):
    """As fairseq reads them; and the tokenizer is next to the data."""
    from fairseq.data import indexed_dataset

    _, path = bert
    text = tmp_path / "train.txt"
    text.write_text("".join(f"the low tide {i}\n\n" for i in range(200)))
    tokenizer = ["--wordpiece", str(path)]
    own = ["prepare", "pretraining", str(tmp_path / "own"), "--source", str(text), "--valid-share", "0.3"]
    main([*own, *tokenizer])
    assert json.loads((tmp_path / "own" / "manifest.json").read_text())["tokenizer"]["name"] == "wordpiece"
    dictionary = Dictionary.load(str(tmp_path / "own" / "shard0" / "dict.txt"))
    row = indexed_dataset.make_dataset(str(tmp_path / "own" / "shard0" / "train"), "mmap")[0]
    assert dictionary.string(row).startswith("the low tide ")
    task = tmp_path / "SST-2"
    task.mkdir()
    for split in ("train", "dev"):
        (task / f"{split}.tsv").write_text("sentence\tlabel\nthe low tide\t1\nnew low\t0\n")
    main(["prepare", "sst-2", str(tmp_path / "sst-2"), "--source", str(task), *tokenizer])
    rows = indexed_dataset.make_dataset(str(tmp_path / "sst-2" / "input0" / "train"), "mmap")
    assert [dictionary.string(row) for row in rows] == ["the low tide", "new low"]
    copy = (tmp_path / "sst-2" / "tokenizer.json").read_bytes()
    assert copy == normalize(path.read_bytes(), path)


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


BROKEN = {
    "not JSON": (lambda p: p.write_text("[PAD]\n"), "not a tokenizer.json"),
    "other model": (lambda p: change(p, model={"type": "BPE", "vocab": {}, "merges": []}), "WordPiece model, got BPE"),
    "no mask": (lambda p: change(p, model={"type": "WordPiece", "vocab": {"[CLS]": 0}}), "has no .PAD."),
    "added token": (lambda p: change(p, added_tokens=[{"content": "<new>"}]), "got '<new>'"),
    "no vocabulary": (lambda p: change(p, model={"type": "WordPiece"}), "0 to V - 1"),
    "gap": (lambda p: change(p, model={"type": "WordPiece", "vocab": {"[CLS]": 0, "[PAD]": 2}}), "0 to V - 1"),
    "added number": (lambda p: change(p, added_tokens=[1]), "not a tokenizer.json"),
    "normalizer": (lambda p: change(p, normalizer={"type": "Unknown"}), "not a valid tokenizer.json"),
    "missing": (lambda p: p.unlink(), "does not exist"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_unusable_file_is_rejected(name, bert, tmp_path):
    _, path = bert
    spoil, message = BROKEN[name]
    spoil(path)
    with pytest.raises(ValueError, match=message) as error:
        WordPiece(path)
    assert "\n" not in str(error.value)
