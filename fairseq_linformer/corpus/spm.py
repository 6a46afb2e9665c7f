"""Train a sentencepiece model, write its dictionary for fairseq, encode text with it.

    python -m fairseq_linformer.corpus.spm train OUT --input train.txt --vocab-size 2000
    python -m fairseq_linformer.corpus.spm encode OUT/spm.model --input train.txt --output train.spm

``train`` writes OUT/spm.model and OUT/dict.txt; ``encode`` writes the pieces of each line, separated by spaces. Then

    fairseq-preprocess --only-source --srcdict OUT/dict.txt --trainpref train.spm ...

binarises them. fairseq puts its own symbols around the dictionary (<s>, <pad>, </s>, <unk> before it, <mask> after
it), so that a model of V pieces, one of which is <unk>, gives V - 1 + 5 entries.
"""

import argparse
import io
import sys
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Sequence, Union

import sentencepiece

from ..errors import first_line
from ..files import atomic, write_lines

FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def train(
    inputs: Union[Sequence, Iterator[str]], vocab_size: int, model_type: str = "bpe", *, fold_case: bool
) -> bytes:
    """Train a model on text, one sentence or paragraph per line.

    The same text, in files of the same names, gives the same bytes: one thread, all lines, in their order.

    Args:
        inputs: UTF-8 text files, or an iterator over lines.
        vocab_size: V, pieces of the model, <unk> included.
        model_type: ``bpe`` or ``unigram``.
        fold_case: take upper case for lower case, which makes more of a small vocabulary.

    Returns:
        the content of the model's file.

    Raises:
        OSError: an input cannot be read.
        ValueError: an input is empty; vocab_size is more than the text carries, or less than its characters.
    """
    if not 1 <= vocab_size <= 1_000_000:
        raise ValueError(f"vocab_size is {vocab_size}; it must be from 1 to 1,000,000")
    text = {"sentence_iterator": inputs}
    if not isinstance(inputs, Iterator):
        text = {"input": [str(path) for path in inputs]}
        for path in inputs:  # sentencepiece names no file and no reason
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
            # Sentence marks and padding are fairseq's; here they would be unused pieces.
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            # The longest line is a whole paragraph, in bytes; longer ones would be left out.
            max_sentence_length=1 << 20,
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        # Its messages read "INTERNAL: file.cc(12) [condition] Sentence for a human.", and if the
        # iterator raises "INTERNAL: ValueError: its sentence", with more lines.
        sentence = first_line(str(error).split("] ")[-1]).removeprefix("INTERNAL: ").removeprefix("ValueError: ")
        raise ValueError(sentence or "sentencepiece failed") from None
    return model.getvalue()


def dictionary(model) -> List[str]:
    """The pieces of a model (a path, or its bytes) in order, without those that fairseq adds by itself.

    Raises:
        ValueError: a piece of ordinary text has the name of one of fairseq's symbols.
    """
    processor = load(model)
    numbers = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in numbers if not (processor.is_unknown(i) or processor.is_control(i))]
    for symbol in FAIRSEQ_SYMBOLS:
        if symbol in pieces:
            raise ValueError(f"{symbol} is a piece of this model; fairseq would take it for its own symbol")
    return pieces


def entries(names: Iterable[str]) -> List[str]:
    """The lines "name count" of fairseq's ``dict.txt``. Counts only serve to sort and cut it, which must not happen."""
    return [f"{name} 1" for name in names]


def write_dictionary(model, path) -> None:
    """Write ``path`` as fairseq's ``dict.txt``, with an entry for each piece."""
    write_lines(path, entries(dictionary(model)))


def encode(model, input, output) -> int:
    """Write the pieces of each line of ``input`` to ``output``, whole or not at all. A blank line stays one.

    Args:
        model: path of a sentencepiece model, or its bytes.
        input, output: UTF-8 text files.

    Returns:
        the number of pieces written.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: ``input`` is not UTF-8.
    """
    processor = load(model)
    total = 0
    # newline: a lone carriage return ends no line, here or in a file of labels beside.
    with open(input, encoding="utf-8", newline="\n") as lines, atomic(output) as out:
        try:
            for line in lines:
                pieces = processor.encode(line.rstrip("\n"), out_type=str)
                total += len(pieces)
                out.write(" ".join(pieces) + "\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{input} is not UTF-8: {error}") from None
    return total


def load(model) -> sentencepiece.SentencePieceProcessor:
    """A model from its path or its bytes; ValueError if it is none."""
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError:
        name = "the model" if isinstance(model, bytes) else model
        raise ValueError(f"{name} is no sentencepiece model") from None


def main(arguments: Optional[List[str]] = None) -> None:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser("python -m fairseq_linformer.corpus.spm", description="Sentencepiece for fairseq.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train", help="write OUT/spm.model and OUT/dict.txt")
    command.add_argument("out", metavar="OUT", type=Path)
    command.add_argument("--input", nargs="+", required=True, help="text files")
    command.add_argument("--vocab-size", type=int, required=True, help="pieces, <unk> included")
    command.add_argument("--model-type", choices=("bpe", "unigram"), default="bpe")
    command.add_argument("--keep-case", action="store_true", help="do not fold case")
    command = commands.add_parser("encode", help="write the pieces of text files")
    command.add_argument("model", metavar="MODEL")
    command.add_argument("--input", nargs="+", required=True, help="text files")
    command.add_argument("--output", nargs="+", required=True, help="as many, in the same order")
    options = parser.parse_args(arguments)
    try:
        if options.command == "train":
            model = train(options.input, options.vocab_size, options.model_type, fold_case=not options.keep_case)
            # The dictionary first: a model without it would look finished.
            write_dictionary(model, options.out / "dict.txt")
            with atomic(options.out / "spm.model", "wb") as file:
                file.write(model)
        else:
            if len(options.input) != len(options.output) or len(set(options.output)) != len(options.output):
                raise ValueError("encode needs as many different outputs as inputs")
            for input, output in zip(options.input, options.output):
                encode(options.model, input, output)
    except (OSError, ValueError) as error:
        sys.exit(f"spm: {error}")


if __name__ == "__main__":
    main()
