"""The tokenizer produces fairseq's token IDs for any text."""

import json
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from transformers import AutoTokenizer

from fairseq_linformer.checkpoints import transformers_tokenizer
from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.checkpoints.transformers_tokenizer import find_tokenizer
from fairseq_linformer.data import sentencepiece_model
from fairseq_linformer.huggingface import LinformerByteLevelTokenizer, LinformerTokenizer
from fairseq_linformer.huggingface.tokenization_linformer import read_token_ids
from fairseq_linformer.models.hub_bpe import _choose_bpe

from ..checkpoint_fixtures import TEXT, hub
from ..checkpoints.encoders import save_encoder
from ..fairseq_preprocessing import write_gpt2

WORDS = "the Cat CAT dog s at É é e\u0301 ß İ ﬁ ² １ 12 's don't 中文 😀 👩\u200d👧 . ... < ▁".split()
SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\x1c", "\x85", "\ufeff"]


def texts(count: int = 300):
    generator = random.Random(3)
    yield from ["", " ", "  the  cat ", *TEXT]
    for _ in range(count):
        yield "".join(generator.choices([*WORDS, *SPACES], k=generator.randint(1, 12)))


def fairseqs_dictionary(path) -> Dictionary:
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol("<mask>")
    return dictionary


def count_unknown(bpe, dictionary, tokenizer, sentences) -> int:
    """Compare with fairseq's hub ``encode``, word for word, for single sentences and for pairs."""
    unknown = 0
    for a, b in zip(sentences, reversed(sentences)):
        single = f"<s> {bpe.encode(a)} </s>"
        # transformers' fast tokenizers ignore an empty second sentence
        b = b if b.strip() else "a dog"
        for inputs, line in (((a,), single), ((a, b), f"{single} </s> {bpe.encode(b)} </s>")):
            expected = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()
            assert tokenizer(*inputs)["input_ids"] == expected, inputs
            unknown += expected.count(dictionary.unk())
    for text in TEXT:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids[1:-1]) == bpe.decode(dictionary.string(ids[1:-1]))
    return unknown


@pytest.mark.parametrize(
    "model_type, rule, byte_fallback",
    [
        ("bpe", "nmt_nfkc", False),
        ("bpe", "identity", True),
        ("unigram", "nmt_nfkc_cf", True),
        ("unigram", "identity", False),
    ],
)
def test_slow_tokenizer_of_sentencepiece(model_type, rule, byte_fallback, tmp_path):
    size = 45 + 256 * byte_fallback
    train_sentencepiece(
        tmp_path, vocab_size=size, model_type=model_type, normalization_rule_name=rule, byte_fallback=byte_fallback
    )
    model, path = tmp_path / "sentencepiece.bpe.model", tmp_path / "dict.txt"
    # A dictionary may lack pieces: here every seventh.
    entries = [entry for i, entry in enumerate(sentencepiece_model.list_pieces(model.read_bytes())) if i % 7]
    path.write_text("".join(f"{entry} 1\n" for entry in entries), encoding="utf-8")
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(model)))
    tokenizer = LinformerTokenizer(str(path), str(model))
    assert count_unknown(bpe, fairseqs_dictionary(path), tokenizer, list(texts())) > 0


def small_gpt2(folder: Path) -> Path:
    """A byte-level BPE in the files of GPT-2, and a dictionary that lacks pieces."""
    return write_gpt2(folder, merges=("a t", "c at", "Ġ cat", "h e", "t he", "Ġ the", "Ġ m"))


def complete_dictionary(folder: Path) -> Path:
    """Add the pieces that the dictionary of ``small_gpt2`` lacks."""
    ids = json.loads((folder / "encoder.json").read_text()).values()
    known = {line.split()[0] for line in (folder / "dict.txt").read_text().splitlines()}
    with open(folder / "dict.txt", "a") as file:
        file.writelines(f"{i} 1\n" for i in ids if str(i) not in known)
    return folder


def fairseqs_gpt2(folder: Path) -> GPT2BPE:
    files = {"gpt2_encoder_json": str(folder / "encoder.json"), "gpt2_vocab_bpe": str(folder / "vocab.bpe")}
    return GPT2BPE(GPT2BPEConfig(**files))


def test_gpt2(tmp_path):
    folder = small_gpt2(tmp_path)
    with pytest.raises(ValueError, match="dictionary lacks 6 tokens of GPT-2's BPE, such as .*--no-tokenizer"):
        find_tokenizer(folder, 16)
    complete_dictionary(folder)
    fast, _ = find_tokenizer(folder, 16)
    fast.save_pretrained(folder / "saved")
    fast = LinformerByteLevelTokenizer.from_pretrained(folder / "saved")
    bpe, dictionary = fairseqs_gpt2(folder), fairseqs_dictionary(folder / "dict.txt")
    assert fast.is_fast and len(fast) == len(dictionary)
    assert count_unknown(bpe, dictionary, fast, [text.replace("\x85", "") for text in texts()]) == 0
    # A mask absorbs the space before it, as in fill_mask of fairseq's hub interface.
    line = f"<s> {bpe.encode('the cat')} <mask> {bpe.encode(' on')} </s>"
    expected = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False)
    assert fast("the cat <mask> on")["input_ids"] == expected.tolist()
    encoded = fast("the cat sat", return_offsets_mapping=True)
    spans = ["the cat sat"[start:end] for start, end in encoded["offset_mapping"][1:-1]]
    assert "".join(spans) == "thecatsat" and encoded["offset_mapping"][0] == (0, 0)  # as RoBERTa's, without spaces
    # A space that is put before a text or a word is in no offset either.
    spaced = LinformerByteLevelTokenizer.from_pretrained(folder / "saved", add_prefix_space=True)
    assert spaced("the", return_offsets_mapping=True)["offset_mapping"] == [(0, 0), (0, 3), (0, 0)]
    words = spaced(["a", "the"], is_split_into_words=True, return_offsets_mapping=True)
    assert words["offset_mapping"][-2] == (0, 3)


def assert_equal_encodings(slow, fast) -> None:
    """IDs, pairs, special tokens and truncation."""
    # Data and fast tokenizers have <unk> for U+0085; fairseq's hub interface and the slow tokenizer split at it.
    special = ["the <mask> sat </s>", "<s><mask>", "the cat<pad> <unk>"]
    sentences = [*(text.replace("\x85", "") for text in texts()), *special]
    for a, b in zip(sentences, reversed(sentences)):
        # transformers' fast tokenizers ignore an empty second sentence
        for inputs in ((a,), (a, b if b.strip() else "a dog")):
            expected, actual = (each(*inputs, return_special_tokens_mask=True) for each in (slow, fast))
            assert actual.keys() == expected.keys() and dict(actual) == dict(expected), inputs
        long = a + " the cat" * 20
        for options in (dict(truncation=True), dict(truncation="only_first", max_length=12)):
            assert fast(long, "a dog", **options)["input_ids"] == slow(long, "a dog", **options)["input_ids"]


@pytest.mark.slow
def test_hub_interface_reads_the_gpt2_files_of_a_folder(tmp_path):
    folder = small_gpt2(tmp_path)
    paths = {"gpt2_encoder_json": str(folder / "encoder.json"), "gpt2_vocab_bpe": str(folder / "vocab.bpe")}
    assert _choose_bpe((folder,), {}) == ("gpt2", paths)


def train_sentencepiece(folder: Path, **options) -> Path:
    """A BPE of sentencepiece, and its dictionary; returns the path for a checkpoint beside them."""
    with open(folder / "sentencepiece.bpe.model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*TEXT, "Über Äpfel, 1 + 2 = 3 ...", "über İzmir ½ ～ é"] * 10),
            model_writer=file,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,
            **{"model_type": "bpe", "vocab_size": 60, **options},
        )
    model = (folder / "sentencepiece.bpe.model").read_bytes()
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in sentencepiece_model.list_pieces(model)))
    return folder / "model.pt"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        dict(normalization_rule_name="nmt_nfkc"),
        dict(normalization_rule_name="nmt_nfkc_cf"),
        dict(byte_fallback=True, vocab_size=320),
        dict(user_defined_symbols=["cat"]),
        dict(split_by_whitespace=False, vocab_size=120),
    ],
    ids=lambda options: next(iter(options)),
)
def test_fast_tokenizer_of_sentencepiece(options, tmp_path):
    fast, files = find_tokenizer(train_sentencepiece(tmp_path, **options).parent, 16)
    slow = LinformerTokenizer(str(files["dict.txt"]), str(files["sentencepiece.bpe.model"]), model_max_length=16)
    fast.save_pretrained(tmp_path / "saved")
    fast = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert fast.is_fast and len(fast) == len(slow)
    assert_equal_encodings(slow, fast)
    text = "the  cat sat"
    encoded = fast(text, return_offsets_mapping=True)
    spans = [text[start:end] for start, end in encoded["offset_mapping"][1:-1]]
    assert "".join(spans).replace(" ", "") == "thecatsat"
    assert fast.decode(encoded["input_ids"], skip_special_tokens=True) == "the cat sat"


def test_sentencepiece_models_without_one(tmp_path):
    for options in (dict(model_type="unigram"), dict(treat_whitespace_as_suffix=True)):
        assert not find_tokenizer(train_sentencepiece(tmp_path, **options).parent, 16)[0].is_fast
    checkpoint, dictionary = train_sentencepiece(tmp_path), tmp_path / "dict.txt"
    entries = dictionary.read_text(encoding="utf-8")
    dictionary.write_text(entries.split("\n", 2)[2], encoding="utf-8")
    assert not find_tokenizer(checkpoint.parent, 16)[0].is_fast
    # fairseq-preprocess without --srcdict writes such entries.
    dictionary.write_text(entries + "文字 1\n", encoding="utf-8")
    slow, _ = find_tokenizer(checkpoint.parent, 16)
    assert not slow.is_fast
    assert slow("文字")["input_ids"].count(len(slow) - 2) == 1


def test_equals_the_hub_interface(masked_lm, masked_lm_folder):
    theirs = hub(masked_lm, masked_lm)
    tokenizer = AutoTokenizer.from_pretrained(masked_lm_folder, trust_remote_code=True)
    for text in texts(50):
        text = text.replace("\x85", "")  # as in ``assert_equal_encodings``
        assert tokenizer(text)["input_ids"] == theirs.encode(text).tolist()
        assert tokenizer(text, "a dog")["input_ids"] == theirs.encode(text, "a dog").tolist()
    special = (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
    assert special == (0, 1, 2, 3)
    assert tokenizer.mask_token_id == len(tokenizer) - 1 == theirs.task.mask_idx
    assert tokenizer.model_max_length == 16
    batch = tokenizer(["the cat", "a dog ran to the mat"], padding=True, return_tensors="pt")
    assert batch.keys() == {"input_ids", "attention_mask"}
    assert batch["input_ids"].ne(1).equal(batch["attention_mask"].bool())
    assert len(tokenizer("the cat " * 50, truncation=True)["input_ids"]) == 16
    marks = tokenizer("the cat", "a dog", return_special_tokens_mask=True)
    assert [i in (0, 2) for i in marks["input_ids"]] == [bool(mark) for mark in marks["special_tokens_mask"]]
    # It can be pickled for the workers of a data loader.
    assert pickle.loads(pickle.dumps(tokenizer))("the cat")["input_ids"] == tokenizer("the cat")["input_ids"]


def test_dictionaries_are_read_as_by_fairseq(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("a b 3\n<s> 5 #fairseq:overwrite\n▁x 1\n<mask> 2\n", encoding="utf-8")
    ours, theirs = read_token_ids(path), fairseqs_dictionary(path)
    assert ours == theirs.indices


def test_folder_with_a_slow_tokenizer(masked_lm, tmp_path, monkeypatch):
    """As for a unigram model of sentencepiece."""
    monkeypatch.setattr(transformers_tokenizer, "build_fast", lambda tokenizer: None)
    export_checkpoint(masked_lm / "checkpoint_last.pt", tmp_path / "out")
    assert "| tokenizer | slow |" in (tmp_path / "out" / "README.md").read_text()
    tokenizer, text = AutoTokenizer.from_pretrained(tmp_path / "out"), TEXT[0]
    assert type(tokenizer) is LinformerTokenizer
    assert tokenizer(text)["input_ids"] == hub(masked_lm, masked_lm).encode(text).tolist()


ELSEWHERE = """
import sys
sys.modules["fairseq_linformer"] = None
from transformers import AutoTokenizer
folder, saved, words = *sys.argv[1:], ["new", "low"]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
print(tokenizer("new low")["input_ids"])
spaced = AutoTokenizer.from_pretrained(folder, add_prefix_space=True, trust_remote_code=True)
print(spaced(words, is_split_into_words=True)["input_ids"])
tokenizer.save_pretrained(saved)
try:
    tokenizer(words, is_split_into_words=True)
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_words_of_byte_level_bpe_are_not_joined(tmp_path):
    """Without a space before each, "new" and "low" would be the pieces of "newlow"."""
    convert(save_encoder(tmp_path / "encoder", "roberta", True), tmp_path / "fairseq")
    export_checkpoint(tmp_path / "fairseq", tmp_path / "first")
    tokenizer, _ = find_tokenizer(tmp_path / "fairseq", 32)
    text, spaced = (tokenizer(each)["input_ids"] for each in ("new low", " new low"))
    assert text != spaced and tokenizer(["new low"])["input_ids"] == [text]
    for folder, saved in (("first", "second"), ("second", "third")):
        run = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, folder, saved], capture_output=True, text=True, cwd=tmp_path
        )
        assert run.returncode == 0, run.stderr
        *found, error = run.stdout.splitlines()
        assert found == [str(text), str(spaced)] and "add_prefix_space=True" in error
        for name in ("config.json", "configuration_linformer.py", "config.py"):
            shutil.copy(tmp_path / folder / name, tmp_path / saved)
        with pytest.raises(ValueError, match="add_prefix_space=True"):
            AutoTokenizer.from_pretrained(tmp_path / saved)(["new", "low"], is_split_into_words=True)
