"""Fast tokenizers of sentencepiece models: the token IDs of sentencepiece, offsets, and models that have none."""

import os
import random
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from transformers import AutoTokenizer

from fairseq_linformer.checkpoints.fast_tokenizer import build_fast_tokenizer
from fairseq_linformer.checkpoints.sentencepiece_normalizer import RULES, build_normalizer
from fairseq_linformer.checkpoints.transformers_tokenizer import find_tokenizer
from fairseq_linformer.data.sentencepiece_model import list_pieces, train_model, write_dictionary
from fairseq_linformer.huggingface import LinformerTokenizer

from ..checkpoint_fixtures import TEXT
from ..huggingface.test_tokenizer import assert_equal_encodings

LINES = [*TEXT, "Über Äpfel, 1 + 2 = 3 ...", "über İzmir ½ ～ é"]
BASES = "aeEiıIoOuUsSzZAÅﬁÄǰßΑας カはｶﾞㄱㅏㅋ가각Ａ𝖾º"
MARKS = [c for c in map(chr, range(0x3100)) if unicodedata.category(c).startswith("M")]
OTHERS = "\x01\t\n\u00a0\u200b\u200c\u200d\ufeff\uff9e～İ▁½②ᄀ\u1161\u11a8\u3133\u0341\u0344\u0345👩👍🏽🇩🇪"


def train(folder: Path, *, fold_case: bool = False, model_type: str = "bpe", size: int = 60) -> Path:
    model = train_model(iter(LINES * 10), size, model_type, fold_case=fold_case)
    path = folder / "sentencepiece.bpe.model"
    path.write_bytes(model)
    write_dictionary(model, folder / "dict.txt")
    return path


def train_with(folder: Path, **options) -> Path:
    """A model with other options of sentencepiece."""
    path = folder / "sentencepiece.bpe.model"
    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES * 10),
            model_writer=file,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,
            **{"model_type": "bpe", "vocab_size": 60, **options},
        )
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in list_pieces(path)), encoding="utf-8")
    return path


def random_texts(count: int):
    generator = random.Random(5)
    for _ in range(count):
        parts = generator.choices([BASES, MARKS, OTHERS], [4, 4, 1], k=generator.randint(1, 8))
        text = "".join(generator.choice(part) for part in parts)
        form = generator.choice(["NFC", "NFD", "NFKD", None, None])
        yield text if form is None else unicodedata.normalize(form, text)


@pytest.fixture(scope="module", params=RULES)
def model(request, tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp(request.param), fold_case=request.param.endswith("cf"))


@pytest.mark.slow
def test_normalization(model):
    content = model.read_bytes()
    normalizer = build_normalizer(content)
    theirs = sentencepiece.SentencePieceNormalizer(
        model_proto=content, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=True
    )
    for text in random_texts(5000):
        assert normalizer.normalize_str(text) == theirs.normalize(text), ascii(text)
    for text in (f"x{chr(i)}y " for i in (*range(0xD800), *range(0xE000, 0x10000))):
        assert normalizer.normalize_str(text) == theirs.normalize(text), ascii(text)


@pytest.mark.slow
def test_token_ids(model):
    slow = LinformerTokenizer(str(model.parent / "dict.txt"), str(model), model_max_length=16)
    fast, _ = find_tokenizer(model.parent / "model.pt", 16)
    fast.save_pretrained(model.parent / "saved")
    fast = AutoTokenizer.from_pretrained(model.parent / "saved")
    assert fast.is_fast and len(fast) == len(slow)
    assert_equal_encodings(slow, fast)
    for text in random_texts(300):
        assert fast(text)["input_ids"] == slow(text)["input_ids"], ascii(text)
    text = "the  cat sat, Ａé"
    encoded = fast(text, return_offsets_mapping=True)
    assert encoded["offset_mapping"][0] == encoded["offset_mapping"][-1] == (0, 0)
    spans = [text[start:end] for start, end in encoded["offset_mapping"][1:-1]]
    assert "".join(spans).replace(" ", "") == "thecatsat,Ａé"
    assert fast.decode(fast("the cat sat")["input_ids"], skip_special_tokens=True) == "the cat sat"


@pytest.mark.parametrize(
    "options, reason",
    [
        (dict(model_type="unigram"), "unigram"),
        (dict(normalization_rule_name="identity"), "identity"),
        (dict(byte_fallback=True, vocab_size=320), "byte"),
        (dict(user_defined_symbols=["cat"]), "user-defined"),
        (dict(split_by_whitespace=False, vocab_size=120), "of several words"),
        (dict(add_dummy_prefix=False), "spaces"),
        (dict(remove_extra_whitespaces=False), "spaces"),
        (dict(treat_whitespace_as_suffix=True), "spaces"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_models_without_one(options, reason, tmp_path):
    train_with(tmp_path, **{"normalization_rule_name": "nmt_nfkc", **options})
    tokenizer, _ = find_tokenizer(tmp_path / "model.pt", 16)
    assert not tokenizer.is_fast and reason in tokenizer.why_slow


def test_incomplete_dictionary(tmp_path):
    model = train(tmp_path)
    entries = (tmp_path / "dict.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "dict.txt").write_text("".join(entries[2:]), encoding="utf-8")
    with pytest.raises(ValueError, match="dictionary lacks 2 pieces"):
        build_fast_tokenizer(LinformerTokenizer(str(tmp_path / "dict.txt"), str(model)))


def test_dictionary_with_unknown_text(tmp_path):
    """fairseq-preprocess without --srcdict writes such entries."""
    model = train(tmp_path)
    with open(tmp_path / "dict.txt", "a", encoding="utf-8") as dictionary:
        dictionary.write("thecat 1\n文字 1\n")
    slow = LinformerTokenizer(str(tmp_path / "dict.txt"), str(model))
    assert slow.ids["文字"] in slow("文字")["input_ids"]
    with pytest.raises(ValueError, match="dictionary has 1 entries .* '文字'"):
        build_fast_tokenizer(slow)


@pytest.mark.slow
@pytest.mark.skipif("LINFORMER_DATA" not in os.environ, reason="LINFORMER_DATA names no folder with wiki in it")
@pytest.mark.parametrize("fold_case", [False, True])
def test_real_text(fold_case, tmp_path):
    text = Path(os.environ["LINFORMER_DATA"], "wiki", "valid.txt").read_text(encoding="utf-8").splitlines()
    model = tmp_path / "spm.model"
    model.write_bytes(train_model(iter(text), 4000, fold_case=fold_case))
    write_dictionary(model, tmp_path / "dict.txt")
    slow = LinformerTokenizer(str(tmp_path / "dict.txt"), str(model))
    fast = build_fast_tokenizer(slow)
    assert fast(text)["input_ids"] == [slow(line)["input_ids"] for line in text]
