"""``fairseq-linformer analyze``: measures the spectrum of attention and the paper's theorems."""

import argparse
from itertools import islice
from pathlib import Path

from ..benchmark.arguments import parse_ints
from .parsers import add_command, add_subcommands, add_tokenizer, reject_options, tokenizer_files

BREAK_MODES = {"none": "packed", "eos": "lines"}
"""fairseq's names for the break modes of ``analysis.sentences``."""


def add_parser(commands) -> None:
    """Add ``analyze`` and its subcommands."""
    analyze = add_command(
        commands,
        "analyze",
        "measure the spectrum of attention, and test the paper's two theorems",
        "analyze spectrum checkpoint_best.pt --source wiki.txt --out spectra/wiki",
    )
    subcommands = add_subcommands(analyze, "analysis")

    parser = add_command(
        subcommands,
        "spectrum",
        "measure the singular values of attention maps (Figure 1 of the paper)",
        """analyze spectrum FacebookAI/roberta-base --source wiki.txt --out spectra/wiki --suggest-k 0.9
        analyze spectrum checkpoint_best.pt --source imdb.txt --sample-break-mode eos --out spectra/imdb""",
        description="Rerun to resume, or to add sentences with a larger --num-sentences.",
    )
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder to write, or to resume")
    parser.add_argument(
        "--num-sentences", type=int, default=10000, metavar="N", help="number of sentences; the paper uses 10000"
    )
    parser.add_argument(
        "--short",
        choices=("skip", "pad"),
        default="skip",
        help="skip sentences shorter than --tokens-per-sample, or pad them and measure their real tokens",
    )
    parser.add_argument(
        "--index",
        type=int,
        metavar="I",
        help="index of the singular value in the heat map (default: a quarter of them, like the paper's 128 of 512)",
    )
    parser.add_argument("--batch-size", type=int, default=1, metavar="B", help="sentences per batch")
    parser.add_argument(
        "--num-checked", type=int, default=4, metavar="N", help="number of sentences to check in double precision"
    )
    parser.add_argument(
        "--suggest-k",
        type=float,
        metavar="SHARE",
        help="print the --projected-dim that keeps this share of the sum of singular values, such as 0.9",
    )
    parser.add_argument(
        "--energy",
        choices=("values", "squares"),
        help="whether --suggest-k sums singular values, as in Figure 1, or their squares (default: values)",
    )
    parser.set_defaults(run=_spectrum)

    parser = add_command(
        subcommands,
        "figure",
        "draw several spectra side by side",
        "analyze figure spectra/wiki spectra/imdb --out figure1.png",
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="output folder of `analyze spectrum`")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="figure to write, .png or .svg")
    parser.add_argument(
        "--title", action="append", help="title of a spectrum; repeat for each folder (default: model and text)"
    )
    parser.set_defaults(run=_figure)

    parser = add_command(
        subcommands,
        "attention",
        "draw the attention maps of chosen sentences",
        "analyze attention checkpoint_best.pt --source wiki.txt --sentence 3 --out pictures",
    )
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder to write")
    parser.add_argument(
        "--sentence",
        type=int,
        action="append",
        required=True,
        metavar="N",
        help="number of a sentence, counted from 1; repeat for several sentences",
    )
    parser.set_defaults(run=_attention)

    parser = add_command(
        subcommands,
        "theorems",
        "test theorems 1 and 2 and each step of their proofs numerically",
        """analyze theorems theorems --lengths 128,512 --head-dim 64
        analyze theorems theorems --checkpoint checkpoint_best.pt --source wiki.txt""",
        description="Q, K and V are random, or those of a checkpoint.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    parser.add_argument("--lengths", type=parse_ints, metavar="N,N", help="n of random heads (default: 128,512,2048)")
    parser.add_argument("--head-dim", type=int, metavar="D", help="dimension of random heads (default: 64)")
    parser.add_argument(
        "--checkpoint", help="fairseq checkpoint or exported Linformer whose heads to measure (default: random heads)"
    )
    _add_text(parser, required=False)
    parser.add_argument("--num-sentences", type=int, metavar="N", help="number of sentences (default: 2)")
    parser.add_argument(
        "--draws",
        type=int,
        default=100,
        metavar="R",
        help="samples of R for theorem 1; theorem 2 uses a tenth of them, at least 3",
    )
    parser.add_argument("--epsilon", type=float, default=0.5, metavar="EPS", help="eps of theorem 2")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of R, and of random Q, K and V")
    _add_tokenizer_files(parser)
    parser.set_defaults(run=_theorems)


def _add_model(parser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="fairseq checkpoint, transformers folder, or model name on the Hugging Face hub",
    )
    _add_text(parser, required=True)
    parser.add_argument(
        "--sample-break-mode",
        choices=BREAK_MODES,
        default="none",
        help="none: split the text every n tokens, as in masked_lm; eos: one sentence per line or row",
    )
    parser.add_argument("--device", default="cpu", help="PyTorch device: cpu, cuda, cuda:1, ...")
    _add_tokenizer_files(parser)


def _add_text(parser, required: bool) -> None:
    parser.add_argument(
        "--source",
        action="append",
        required=required,
        metavar="SOURCE",
        help="file, folder or glob of text, or hub:NAME, as for `prepare pretraining`; repeat for several sources",
    )
    parser.add_argument(
        "--tokens-per-sample", type=int, metavar="N", help="n, tokens per sentence (default: the model's maximum)"
    )


def _add_tokenizer_files(parser) -> None:
    default = "next to the checkpoint"
    parser.add_argument("--dictionary", type=Path, metavar="FILE", help=f"fairseq's dict.txt (default: {default})")
    add_tokenizer(parser, default=default)


def _load(options, device: str, break_mode: str, short: str):
    from ..analysis.commands import resolve_length
    from ..analysis.loading import load_model
    from ..analysis.sentences import Sentences

    model = load_model(
        options.checkpoint, device, dictionary=options.dictionary, tokenizer_files=tokenizer_files(options)
    )
    n = resolve_length(model, options.tokens_per_sample)
    return model, Sentences(options.source, model.tokenizer, n, BREAK_MODES[break_mode], short, model.bos, model.eos)


def _spectrum(options: argparse.Namespace) -> str:
    if options.suggest_k is not None and not 0 < options.suggest_k < 1:
        raise ValueError(f"--suggest-k must be above 0 and below 1, got {options.suggest_k:g}")
    if options.suggest_k is None and options.energy is not None:
        raise ValueError("--energy needs --suggest-k")
    from ..analysis.commands import analyze_spectrum
    from ..analysis.spectrum_result import suggest_projected_dim

    model, texts = _load(options, options.device, options.sample_break_mode, options.short)
    spectrum = analyze_spectrum(
        model, texts, options.out, options.num_sentences, options.index, options.batch_size, options.num_checked
    )
    facts, counts = spectrum.facts, spectrum.facts["texts"]
    at_most = "at most " if counts["short"] and options.short == "pad" else ""
    lines = [
        f"{options.out}: {facts['sentences']:,} sentences of {at_most}{facts['n']} tokens "
        f"(of {options.num_sentences:,} requested) from {counts['texts']:,} texts; {counts['short']:,} shorter "
        f"({facts['short_sentences']}), {counts['cut']:,} truncated, {counts['unfit']:,} documents skipped",
        f"normalized cumulative singular value at index {spectrum.index} of {spectrum.curve.shape[-1]}, mean over "
        "heads: " + ", ".join(f"layer {i} {value:.3f}" for i, value in enumerate(spectrum.heat.mean(1), start=1)),
    ]
    if options.suggest_k is not None:
        energy = options.energy or "values"
        squared = "squared " * (energy == "squares")
        lines.append(f"for {options.suggest_k:g} of the sum of {squared}singular values, at n = {facts['n']}:")
        suggestions = suggest_projected_dim(spectrum, options.suggest_k, energy)
        lines += [f"  --sharing {sharing} --projected-dim {k}" for sharing, k in suggestions.items()]
    return "\n".join(lines)


def _figure(options: argparse.Namespace) -> str:
    from ..analysis.figures import draw_spectra
    from ..analysis.spectrum_result import read_spectrum

    if options.out.exists():
        raise ValueError(f"{options.out} already exists; choose another file or delete it")
    draw_spectra(options.out, [read_spectrum(folder) for folder in options.folders], options.title)
    return str(options.out)


def _attention(options: argparse.Namespace) -> str:
    from ..analysis.commands import draw_attention

    model, texts = _load(options, options.device, options.sample_break_mode, "pad")
    return "\n".join(map(str, draw_attention(model, texts, options.sentence, options.out)))


CHECKPOINT_OPTIONS = (
    *("source", "tokens_per_sample", "num_sentences"),
    *("dictionary", "sentencepiece_model", "gpt2_bpe", "tokenizer_json"),
)
RANDOM_HEAD_OPTIONS = ("lengths", "head_dim")


def _theorems(options: argparse.Namespace) -> str:
    if options.checkpoint:
        reject_options(options, RANDOM_HEAD_OPTIONS, "cannot be used with --checkpoint")
    else:
        reject_options(options, CHECKPOINT_OPTIONS, "needs --checkpoint")
    from ..analysis.theorems import build_random_heads, measure_theorems
    from ..files import check_new_folder

    check_new_folder(options.out)
    if options.checkpoint:
        groups, facts = _model_heads(options)
    else:
        lengths = list(options.lengths or (128, 512, 2048))
        head_dim = 64 if options.head_dim is None else options.head_dim
        groups = build_random_heads(lengths, head_dim, options.seed)
        facts = {"heads": "random", "lengths": lengths, "width": head_dim}
    results = measure_theorems(groups, options.out, options.draws, options.epsilon, options.seed, facts)
    lines = [f"{options.out}: theorems.json, theorem1.png, theorem2.png, rank_k.png"]
    for row in results["theorem1"]:
        probability = row["theorem"][-1][row["epsilon"].index(0.5)]["value"]
        lines.append(
            f"n = {row['n']}: ||P|| ||w|| is {row['stretch']['value']:.1f} times ||P w||; "
            f"theorem 1 with eps = 0.5 holds with probability {probability:.2f} at k = {row['k'][-1]}"
        )
    return "\n".join(lines)


def _model_heads(options: argparse.Namespace):
    from ..analysis.heads import model_heads

    if not options.source:
        raise ValueError("--checkpoint needs --source, the text on which to compute its heads")
    model, texts = _load(options, "cpu", "none", "skip")
    count = 2 if options.num_sentences is None else options.num_sentences
    if count < 1:
        raise ValueError(f"--num-sentences must be at least 1, got {count}")
    sentences = list(islice(texts, count))
    if len(sentences) < count:
        raise ValueError(
            f"--num-sentences must be at most {len(sentences)}, the sentences of {texts.n} tokens, got {count}"
        )
    facts = {
        "heads": model.short_name,
        "text": texts.short_name,
        "kind": model.kind,
        "n": texts.n,
        "sentences": count,
        "identity": model.identity,
        "texts_sha256": [sha for source in texts.identity() for sha in source["sha256"]],
    }
    return [model_heads(model, sentences)], facts
