"""``tokenizer.json`` of any model: the tokens of ``transformers``, with the IDs of fairseq's dictionary."""

import json

import pytest

pytest.importorskip("transformers")

from fairseq.data import Dictionary, indexed_dataset

from fairseq_linformer.checkpoints.transformers_tokenizer import build_fast
from fairseq_linformer.cli import main
from fairseq_linformer.data.tokenizer import TokenizerJson
from fairseq_linformer.data.tokenizer_json import BERT_SYMBOLS, SYMBOLS

from ..checkpoints.encoders import WORDS, build_tokenizer

MODELS = {
    "bert": "wordpiece",
    "bert-cased": "wordpiece",
    "roberta": "bpe",
    "xlm-roberta": "unigram",
    "camembert": "unigram",
}
TEXTS = ["The LOWEST tides!", "", "Café, café", "unknownword new", "a\u00adb 東京 low", "was slowly: new tides"]


@pytest.fixture(params=MODELS)
def family(request):
    return request.param


@pytest.fixture
def theirs(family):
    return build_tokenizer(family)


@pytest.fixture
def path(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    return tmp_path / "theirs" / "tokenizer.json"


def tokens_of(ours):
    """Names by ID, from <s> to <mask>."""
    return [*SYMBOLS[:4], *(line.rsplit(" ", 1)[0] for line in ours.dictionary), SYMBOLS[-1]]


def test_ids_are_those_of_transformers_by_name(family, theirs, path):
    ours = TokenizerJson(path)
    assert ours.name == MODELS[family]
    tokens, fast = tokens_of(ours), build_fast(ours)
    for text in TEXTS:
        names = theirs.convert_ids_to_tokens(theirs(text)["input_ids"])
        expected = [dict(zip(BERT_SYMBOLS, SYMBOLS)).get(name, name) for name in names]
        ids, sizes = ours.encode([text])
        assert ["<s>", *(tokens[i] for i in ids)] == expected and sizes.tolist() == [len(expected) - 1]
        assert fast.encode(text).ids == [0, *ids]
        assert fast.encode(text).offsets == theirs(text, return_offsets_mapping=True)["offset_mapping"]
    assert fast.encode("low", "new").ids == [*fast.encode("low").ids, 2, *fast.encode("new").ids[1:]]


def test_names_of_special_tokens_are_text(path):
    for name in (*SYMBOLS, *BERT_SYMBOLS):
        ids, _ = (ours := TokenizerJson(path)).encode([f"new {name} low"])
        assert not {0, 1, 2, len(ours.dictionary) + 4} & set(ids[:-1].tolist())


def test_dictionary_is_fairseqs(path, tmp_path):
    ours = TokenizerJson(path)
    (tmp_path / "dict.txt").write_text("\n".join(ours.dictionary) + "\n")
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    dictionary.add_symbol("<mask>")
    assert dictionary.symbols == tokens_of(ours)
    assert TokenizerJson(path, tmp_path / "dict.txt").encode(TEXTS)[0].tolist() == ours.encode(TEXTS)[0].tolist()
    (tmp_path / "dict.txt").write_text("\n".join(reversed(ours.dictionary)) + "\n")
    with pytest.raises(ValueError, match="dict.txt .*same order"):
        TokenizerJson(path, tmp_path / "dict.txt")


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_corpus_and_task_have_the_same_ids(family, path, tmp_path):
    """As fairseq reads them; and the tokenizer is next to the data."""
    text = tmp_path / "train.txt"
    text.write_text("".join(f"the low tide {i}\n\n" for i in range(200)))
    tokenizer = ["--tokenizer", str(path)]
    own = ["prepare", "pretraining", str(tmp_path / "own"), "--source", str(text), "--valid-share", "0.3"]
    main([*own, *tokenizer])
    assert json.loads((tmp_path / "own" / "manifest.json").read_text())["tokenizer"]["name"] == MODELS[family]
    dictionary = Dictionary.load(str(tmp_path / "own" / "shard0" / "dict.txt"))
    row = indexed_dataset.make_dataset(str(tmp_path / "own" / "shard0" / "train"), "mmap")[0]
    assert dictionary.string(row).replace("\u2581", "").startswith("the low tide ")
    task = tmp_path / "SST-2"
    task.mkdir()
    for split in ("train", "dev"):
        (task / f"{split}.tsv").write_text("sentence\tlabel\nthe low tide\t1\nnew low\t0\n")
    main(["prepare", "sst-2", str(tmp_path / "sst-2"), "--source", str(task), *tokenizer])
    rows = indexed_dataset.make_dataset(str(tmp_path / "sst-2" / "input0" / "train"), "mmap")
    assert [dictionary.string(row).replace("\u2581", "") for row in rows] == ["the low tide", "new low"]
    copy = (tmp_path / "sst-2" / "tokenizer.json").read_bytes()
    assert copy == TokenizerJson(path).model_files["tokenizer.json"]


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def model(**vocab):
    return {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 9, "vocab": vocab}


BROKEN = {
    "not JSON": (lambda p: p.write_text("[PAD]\n"), "not a tokenizer.json"),
    "no vocabulary": (lambda p: change(p, model={"type": "WordPiece"}), "not a tokenizer.json"),
    "added number": (lambda p: change(p, added_tokens=[1]), "not a tokenizer.json"),
    "no mask": (lambda p: change(p, added_tokens=[], model=model(**{"[CLS]": 0})), "has no .PAD."),
    "gap": (lambda p: change(p, model=model(**{"[CLS]": 0, "[PAD]": 2})), "0 to V - 1"),
    "white space": (lambda p: change(p, added_tokens=[{"content": "a b", "id": len(WORDS)}]), "no white space.* 'a b'"),
    "normalizer": (lambda p: change(p, normalizer={"type": "Unknown"}), "not a valid tokenizer.json"),
}


@pytest.mark.parametrize("family", ["bert"])
@pytest.mark.parametrize("name", BROKEN)
def test_unusable_file_is_rejected(name, path):
    spoil, message = BROKEN[name]
    spoil(path)
    with pytest.raises(ValueError, match=message) as error:
        TokenizerJson(path)
    assert "\n" not in str(error.value)
