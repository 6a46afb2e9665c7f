"""Measure the spectrum of attention.

fairseq-linformer analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki
"""

import argparse
from pathlib import Path

from .parsers import add_command, add_shared, positive

SPECTRUM = """Measure the singular values of attention maps (Figure 1 of the paper). Rerun to resume.

fairseq-linformer analyze spectrum FacebookAI/roberta-base --source wiki.txt --source imdb.jsonl --out spectra
fairseq-linformer analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki --suggest-k 0.9"""


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    spectrum = add_command(kinds, "spectrum", SPECTRUM)
    add = spectrum.add_argument
    checkpoint = "fairseq checkpoint, run folder, transformers folder, or model name on the Hugging Face hub"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    source = "text, as for `prepare pretraining`; repeat for a curve of each"
    add("--source", action="append", required=True, metavar="SOURCE", help=source)
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    add("--num-sentences", type=positive, default=10000, metavar="N", help="sentences per source")
    share = "print the --projected-dim that keeps this share of the sum of singular values, such as 0.9"
    add("--suggest-k", type=float, default=None, metavar="SHARE", help=share)
    add(
        "--tokens-per-sample", type=int, default=None, metavar="N", help="n, tokens per sentence (default: the model's)"
    )
    breaks = "none: split every n tokens; eos: a sentence per line or row (default: eos for JSON lines and parquet)"
    add("--sample-break-mode", choices=("none", "eos"), default=None, help=breaks)
    add_shared(spectrum, "--device", default="cpu", help="PyTorch device: cpu, cuda, cuda:1, ...")
    add_shared(spectrum, "--dictionary", "--tokenizer", default=None)


def run(options: argparse.Namespace) -> str:
    if options.suggest_k is not None and not 0 < options.suggest_k < 1:
        raise ValueError(f"--suggest-k must be above 0 and below 1, got {options.suggest_k:g}")
    from ..analysis.commands import analyze_spectrum, describe_spectrum
    from ..analysis.loading import load_model
    from ..analysis.sentences import Sentences

    files = {"dictionary": options.dictionary, "tokenizer_files": options.tokenizer}
    model = load_model(options.checkpoint, options.device, **files)
    n = model.n if options.tokens_per_sample is None else options.tokens_per_sample
    if not 3 <= n <= model.n:  # <s>, a token, </s>
        raise ValueError(f"--tokens-per-sample must be between 3 and {model.n} for {model.name}, got {n}")
    texts = [Sentences(source, model, n, options.sample_break_mode) for source in options.source]
    spectra = analyze_spectrum(model, texts, options.num_sentences, options.out)
    described = (describe_spectrum(*each, options.suggest_k) for each in zip(texts, spectra))
    return "\n".join(f"{options.out}, {each}" for each in described)
