"""Measure the spectrum of attention, and draw attention maps.

fairseq-linformer analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki
"""

import argparse
from pathlib import Path

from .parsers import add_command, add_shared, positive

SPECTRUM = """Measure the singular values of attention maps (Figure 1 of the paper). Rerun to resume.

fairseq-linformer analyze spectrum FacebookAI/roberta-base --source wiki.txt --source imdb.jsonl --out spectra
fairseq-linformer analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki --suggest-k 0.9"""
ATTENTION = """Draw the attention maps of chosen sentences.

fairseq-linformer analyze attention checkpoint_best.pt --source wiki.txt --sentence 3 --out pictures"""


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    for kind, text in (("spectrum", SPECTRUM), ("attention", ATTENTION)):
        _add_model(add_command(kinds, kind, text))
    add = kinds.choices["spectrum"].add_argument
    source = "text, as for `prepare pretraining`; repeat for a curve of each"
    add("--source", action="append", required=True, metavar="SOURCE", help=source)
    add("--num-sentences", type=positive, default=10000, metavar="N", help="sentences per source")
    share = "print the --projected-dim that keeps this share of the sum of singular values, such as 0.9"
    add("--suggest-k", type=float, default=None, metavar="SHARE", help=share)
    add = kinds.choices["attention"].add_argument
    add("--source", required=True, metavar="SOURCE", help="text, as for `prepare pretraining`")
    number = "number of a sentence, counted from 1; repeat for several sentences"
    add("--sentence", type=int, action="append", required=True, metavar="N", help=number)


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    checkpoint = "fairseq checkpoint, run folder, transformers folder, or model name on the Hugging Face hub"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    add(
        "--tokens-per-sample", type=int, default=None, metavar="N", help="n, tokens per sentence (default: the model's)"
    )
    breaks = "none: split every n tokens; eos: a sentence per line or row (default: eos for JSON lines and parquet)"
    add("--sample-break-mode", choices=("none", "eos"), default=None, help=breaks)
    add_shared(parser, "--device", default="cpu", help="PyTorch device: cpu, cuda, cuda:1, ...")
    add_shared(parser, "--dictionary", "--tokenizer", default=None)


def run(options: argparse.Namespace) -> str:
    is_spectrum = options.analysis == "spectrum"
    if is_spectrum and options.suggest_k is not None and not 0 < options.suggest_k < 1:
        raise ValueError(f"--suggest-k must be above 0 and below 1, got {options.suggest_k:g}")
    from ..analysis.commands import analyze_spectrum, describe_spectrum, draw_attention
    from ..analysis.loading import load_model
    from ..analysis.sentences import Sentences

    files = {"dictionary": options.dictionary, "tokenizer_files": options.tokenizer}
    model = load_model(options.checkpoint, options.device, **files)
    n = model.n if options.tokens_per_sample is None else options.tokens_per_sample
    if not 3 <= n <= model.n:  # <s>, a token, </s>
        raise ValueError(f"--tokens-per-sample must be between 3 and {model.n} for {model.name}, got {n}")
    if not is_spectrum:
        text = Sentences(options.source, model, n, options.sample_break_mode, short=True)
        return "\n".join(map(str, draw_attention(model, text, options.sentence, options.out)))
    texts = [Sentences(source, model, n, options.sample_break_mode) for source in options.source]
    spectra = analyze_spectrum(model, texts, options.num_sentences, options.out)
    described = (describe_spectrum(*each, options.suggest_k) for each in zip(texts, spectra))
    return "\n".join(f"{options.out}, {each}" for each in described)
