"""Train a SentencePiece model, write its fairseq dictionary, encode text with it.

    python -m fairseq_linformer.data.sentencepiece_model train OUT --input train.txt --vocab-size 2000 --fold-case
    python -m fairseq_linformer.data.sentencepiece_model encode OUT/spm.model --input train.txt --output train.spm

``train`` writes OUT/spm.model and OUT/dict.txt; ``encode`` writes the pieces of each line, separated by spaces, which

    fairseq-preprocess --only-source --srcdict OUT/dict.txt --trainpref train.spm ...

binarizes. fairseq adds its own symbols to the dictionary (<s>, <pad>, </s>, <unk> before it, <mask> after it), so a
model of V pieces, one of which is <unk>, gives V - 1 + 5 entries.
"""

import argparse
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from ..errors import first_line
from ..files import open_atomic, write_lines
from .tokenizer_json import SYMBOLS


def train_model(
    inputs: Sequence | Iterator[str], vocab_size: int, model_type: str = "bpe", *, fold_case: bool
) -> bytes:
    """Train a model on text with one sentence or paragraph per line.

    The result is deterministic for the same text in files of the same names: one thread reads all lines in order.

    Args:
        inputs: UTF-8 text files, or an iterator over lines.
        vocab_size: V, the number of pieces, including <unk>.
        model_type: ``bpe`` or ``unigram``.
        fold_case: convert uppercase to lowercase, which suits small vocabularies.

    Returns:
        the content of the model file.

    Raises:
        OSError: an input cannot be read.
        ValueError: an input is empty, or the text is too small for ``vocab_size`` pieces.
    """
    check_vocab_size(vocab_size)
    text: dict[str, Any] = {"sentence_iterator": inputs}
    if not isinstance(inputs, Iterator):
        text = {"input": [str(path) for path in inputs]}
        for path in inputs:  # sentencepiece's own error names neither file nor reason
            with open(path, "rb") as file:
                if not file.read(1):
                    raise ValueError(f"{path} is empty")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            **text,
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            normalization_rule_name="nmt_nfkc_cf" if fold_case else "nmt_nfkc",
            # fairseq adds its own <s>, </s> and <pad>; the model's would never be used.
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            # In bytes. A line is a paragraph, and longer lines would be skipped.
            max_sentence_length=1 << 20,
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        # Messages read "INTERNAL: file.cc(12) [condition] Sentence."
        sentence = first_line(str(error).split("] ")[-1]).removeprefix("INTERNAL: ")
        raise ValueError(sentence or "sentencepiece failed") from None
    return model.getvalue()


def check_vocab_size(vocab_size: int) -> None:
    """Raise ValueError unless it is between 1 and 1,000,000."""
    if not 1 <= vocab_size <= 1_000_000:
        raise ValueError(f"--vocab-size must be between 1 and 1,000,000, got {vocab_size}")


def list_pieces(model) -> list[str]:
    """The pieces of a model (path or bytes) in order, without <unk> and control symbols, which fairseq adds itself.

    Raises:
        ValueError: a piece of ordinary text has the name of one of fairseq's symbols.
    """
    processor = load_model(model)
    ids = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in ids if not (processor.is_unknown(i) or processor.is_control(i))]
    for symbol in SYMBOLS:
        if symbol in pieces:
            name = "a SentencePiece model" if isinstance(model, bytes) else model
            raise ValueError(f"{name} must not have the piece {symbol}, a special symbol of fairseq")
    return pieces


def dictionary_lines(names: Iterable[str]) -> list[str]:
    """Lines "name count" of a fairseq ``dict.txt``. All counts are equal, because fairseq sorts by them."""
    return [f"{name} 1" for name in names]


def write_dictionary(model, path) -> None:
    """Write the fairseq ``dict.txt`` of a model."""
    write_lines(path, dictionary_lines(list_pieces(model)))


def encode_file(model, input, output) -> None:
    """Write the pieces of each line of ``input`` to ``output``, atomically. Blank lines are kept.

    Args:
        model: a SentencePiece model, as path or bytes.
        input, output: UTF-8 text files.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: ``input`` is not UTF-8.
    """
    processor = load_model(model)
    # newline: a lone carriage return must not end a line, or lines would not match those of a label file.
    with open(input, encoding="utf-8", newline="\n") as lines, open_atomic(output) as out:
        try:
            for line in lines:
                out.write(" ".join(processor.encode(line.rstrip("\n"), out_type=str)) + "\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{input} is not UTF-8: {error}") from None


def load_model(model) -> sentencepiece.SentencePieceProcessor:
    """Load a model from its path or bytes. Raises ValueError if it is not a SentencePiece model."""
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError:
        name = "the model" if isinstance(model, bytes) else model
        raise ValueError(f"{name} is not a SentencePiece model") from None


def main(arguments: list[str] | None = None) -> None:
    """Run the command line described in this module's docstring."""
    parser = argparse.ArgumentParser(
        "python -m fairseq_linformer.data.sentencepiece_model", description="SentencePiece for fairseq."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train", help="write OUT/spm.model and OUT/dict.txt")
    command.add_argument("out", metavar="OUT", type=Path, help="folder of the model")
    command.add_argument("--input", nargs="+", required=True, help="UTF-8 text files")
    command.add_argument("--vocab-size", type=int, required=True, help="number of pieces, including <unk>")
    command.add_argument("--fold-case", action="store_true", help="convert uppercase to lowercase")
    command = commands.add_parser("encode", help="write the pieces of text files")
    command.add_argument("model", metavar="MODEL", help="SentencePiece model")
    command.add_argument("--input", nargs="+", required=True, help="UTF-8 text files")
    command.add_argument("--output", nargs="+", required=True, help="one output per input, in the same order")
    options = parser.parse_args(arguments)
    try:
        if options.command == "train":
            model = train_model(options.input, options.vocab_size, fold_case=options.fold_case)
            # The dictionary first: a model without it would look finished.
            write_dictionary(model, options.out / "dict.txt")
            with open_atomic(options.out / "spm.model", "wb") as file:
                file.write(model)
        else:
            if len(options.input) != len(options.output) or len(set(options.output)) != len(options.output):
                raise ValueError("--output must name as many different files as --input")
            for input, output in zip(options.input, options.output):
                encode_file(options.model, input, output)
    except (OSError, ValueError) as error:
        sys.exit(f"sentencepiece_model: {error}")


if __name__ == "__main__":
    main()
