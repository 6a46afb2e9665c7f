"""``fairseq-linformer analyze``: the spectrum of attention, and attention maps."""

import argparse
from pathlib import Path
from typing import Any

from .parsers import add_command, add_shared, add_subcommands, positive, tokenizer_files


def add_parser(commands) -> None:
    """Add ``analyze`` and its subcommands."""
    analyze = add_command(
        commands,
        "analyze",
        "measure the spectrum of attention, and draw attention maps",
        "analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki",
    )
    subcommands = add_subcommands(analyze, "analysis")

    parser = add_command(
        subcommands,
        "spectrum",
        "measure the singular values of attention maps (Figure 1 of the paper)",
        """analyze spectrum FacebookAI/roberta-base --source wiki.txt --source imdb.jsonl --out spectra
        analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki --suggest-k 0.9""",
        description="Rerun to resume.",
    )
    _add_model(parser)
    add = parser.add_argument
    source = "file, folder or glob of text, or hub:NAME, as for `prepare pretraining`; repeat for a curve of each"
    add("--source", action="append", required=True, metavar="SOURCE", help=source)
    number = "sentences per source; the paper uses 10000"
    add("--num-sentences", type=positive, default=10000, metavar="N", help=number)
    share = "print the --projected-dim that keeps this share of the sum of singular values, such as 0.9"
    add("--suggest-k", type=float, metavar="SHARE", help=share)
    parser.set_defaults(run=_spectrum)

    parser = add_command(
        subcommands,
        "attention",
        "draw the attention maps of chosen sentences",
        "analyze attention checkpoint_best.pt --source wiki.txt --sentence 3 --out pictures",
    )
    _add_model(parser)
    parser.add_argument("--source", required=True, metavar="SOURCE", help="text, as for `analyze spectrum`")
    number = "number of a sentence, counted from 1; repeat for several sentences"
    parser.add_argument("--sentence", type=int, action="append", required=True, metavar="N", help=number)
    parser.set_defaults(run=_attention)


def _add_model(parser) -> None:
    add = parser.add_argument
    checkpoint = "fairseq checkpoint, run folder, transformers folder, or model name on the Hugging Face hub"
    add("checkpoint", metavar="CHECKPOINT", help=checkpoint)
    add("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    n = "n, tokens per sentence (default: the model's maximum)"
    add("--tokens-per-sample", type=int, metavar="N", help=n)
    breaks = (
        "none: split the text every n tokens, as in masked_lm; eos: one sentence per line or row (default: eos for "
        "JSON lines and parquet, otherwise none)"
    )
    add("--sample-break-mode", choices=("none", "eos"), help=breaks)
    add_shared(parser, "--device", default="cpu", help="PyTorch device: cpu, cuda, cuda:1, ...")
    add_shared(parser, "--dictionary", "--tokenizer")


def _open(options: argparse.Namespace) -> tuple[Any, int]:
    """The model, and n."""
    from ..analysis.loading import load_model

    files = tokenizer_files(options)
    model = load_model(options.checkpoint, options.device, dictionary=options.dictionary, tokenizer_files=files)
    n = model.n if options.tokens_per_sample is None else options.tokens_per_sample
    if not 3 <= n <= model.n:  # <s>, a token, </s>
        raise ValueError(f"--tokens-per-sample must be between 3 and {model.n} for {model.name}, got {n}")
    return model, n


def _spectrum(options: argparse.Namespace) -> str:
    if options.suggest_k is not None and not 0 < options.suggest_k < 1:
        raise ValueError(f"--suggest-k must be above 0 and below 1, got {options.suggest_k:g}")
    from ..analysis.commands import analyze_spectrum
    from ..analysis.sentences import Sentences

    model, n = _open(options)
    texts = [Sentences(source, model, n, options.sample_break_mode) for source in options.source]
    lines = []
    for text, spectrum in zip(texts, analyze_spectrum(model, texts, options.num_sentences, options.out)):
        layers = ", ".join(f"layer {i} {value:.3f}" for i, value in enumerate(spectrum.heat.mean(1), start=1))
        lines += [
            f"{options.out}, {text.name}: {spectrum.sentences:,} sentences of {n} tokens; {text.skipped:,} shorter "
            f"(skipped), {text.truncated:,} truncated",
            f"normalized cumulative singular value at index {spectrum.index} of {spectrum.curve.shape[-1]}, mean over "
            f"heads: {layers}",
        ]
        if options.suggest_k is not None:
            suggested = spectrum.suggest_projected_dim(options.suggest_k)
            lines.append(f"for {options.suggest_k:g} of the sum of singular values, at n = {n}:")
            lines += [f"  --sharing {sharing} --projected-dim {k}" for sharing, k in suggested.items()]
    return "\n".join(lines)


def _attention(options: argparse.Namespace) -> str:
    from ..analysis.commands import draw_attention
    from ..analysis.sentences import Sentences

    model, n = _open(options)
    text = Sentences(options.source, model, n, options.sample_break_mode, short=True)
    return "\n".join(map(str, draw_attention(model, text, options.sentence, options.out)))
