"""``fairseq-linformer analyze``: why it works, on any model and any text.

    fairseq-linformer analyze spectrum roberta-base --text wiki.txt --out spectra/wiki --sentences 10000 --suggest-k 0.9
    fairseq-linformer analyze spectrum checkpoint_best.pt --text imdb.txt --cut lines --out spectra/imdb
    fairseq-linformer analyze figure spectra/wiki spectra/imdb --out figure1.png
    fairseq-linformer analyze attention checkpoint_best.pt --text wiki.txt --sentence 3 --out pictures
    fairseq-linformer analyze theorems theorems --model checkpoint_best.pt --text wiki.txt
"""

import argparse
from itertools import islice
from pathlib import Path

from ..benchmark.arguments import numbers


def add_parser(commands) -> None:
    """Add ``analyze`` and its forms."""
    analyze = commands.add_parser("analyze", help="the spectrum of attention, and the paper's two theorems in numbers")
    forms = analyze.add_subparsers(dest="form", required=True, metavar="FORM")

    form = forms.add_parser("spectrum", help="singular values of the context mapping matrices (Figure 1 of the paper)",
                            description="Rerun it to resume, also with more --sentences.")  # fmt: skip
    _add_model(form)
    form.add_argument("--out", type=Path, required=True, help="folder: new, or one where the same was begun")
    form.add_argument("--sentences", type=int, default=10000, metavar="N", help="how many (%(default)s, the paper's)")
    form.add_argument("--short", choices=("skip", "pad"), default="skip",
                      help="sentences of fewer than n tokens: skip (%(default)s), or pad and count their real tokens")
    form.add_argument("--index", type=int, metavar="I",
                      help="of the heat map (a quarter of the singular values: the paper's 128 of 512)")  # fmt: skip
    form.add_argument("--batch", type=int, default=1, metavar="B", help="sentences at once (%(default)s)")
    form.add_argument("--check", type=int, default=4, metavar="C",
                      help="sentences to compute in double precision too (%(default)s)")  # fmt: skip
    form.add_argument("--suggest-k", type=float, metavar="SHARE",
                      help="print k for --projected-dim that holds this share, such as 0.9")  # fmt: skip
    form.add_argument("--energy", choices=("values", "squares"),
                      help="--suggest-k is a share of the sum of singular values, as in Figure 1, or squares")
    form.set_defaults(run=_spectrum)

    form = forms.add_parser("figure", help="one figure of several spectra")
    form.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="written by `analyze spectrum`")
    form.add_argument("--out", type=Path, required=True, help="file to write, .png or .svg")
    form.add_argument("--title", action="append", help="of a folder; repeat it for each")
    form.set_defaults(run=_figure)

    form = forms.add_parser("attention", help="pictures of the attention in chosen sentences")
    _add_model(form)
    form.add_argument("--out", type=Path, required=True, help="folder to write pictures to")
    form.add_argument("--sentence", type=int, action="append", required=True, metavar="N",
                      help="counted from 1; repeat it for several")  # fmt: skip
    form.set_defaults(run=_attention)

    form = forms.add_parser("theorems", help="theorems 1 and 2 and the steps of their proofs, in numbers",
                            description="On random Q, K and V, or on those of --model, a fairseq checkpoint.")
    form.add_argument("out", type=Path, metavar="OUT", help="folder to write, new or empty")
    form.add_argument("--lengths", type=numbers, metavar="N,N", help="n of the random ones (128,512,2048)")
    form.add_argument("--width", type=int, metavar="d", help="of a random head (64)")
    form.add_argument("--model", help="a fairseq checkpoint or a Linformer, whose heads are taken")
    form.add_argument("--text", action="append", metavar="SOURCE", help="for --model, as for spectrum")
    form.add_argument("--length", type=int, metavar="n", help="tokens of a sentence (the longest input of the model)")
    form.add_argument("--sentences", type=int, metavar="N", help="how many of the text (2)")
    form.add_argument("--draws", type=int, default=100,
                      help="samples of R for theorem 1; theorem 2 takes a tenth as many (%(default)s)")  # fmt: skip
    form.add_argument("--epsilon", type=float, default=0.5, help="for theorem 2 (%(default)s)")
    form.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    _add_tokenizer(form)
    form.set_defaults(run=_theorems)


def _add_model(form) -> None:
    form.add_argument("model", metavar="MODEL",
                      help="a fairseq checkpoint, a folder of transformers, or a name on the hub, such as roberta-base")
    form.add_argument("--text", action="append", required=True, metavar="SOURCE",
                      help="a file, folder, pattern or hub:NAME, as for `prepare pretraining --source`; repeatable")
    form.add_argument("--cut", choices=("packed", "lines"), default="packed",
                      help="packed (%(default)s): cut every n tokens, as for masked_lm; lines: a text per line or row")
    form.add_argument("--length", type=int, metavar="n", help="tokens of a sentence (the longest input of the model)")
    form.add_argument("--device", default="cpu", help="cpu (%(default)s), cuda, cuda:1, ...")
    _add_tokenizer(form)


def _add_tokenizer(form) -> None:
    form.add_argument("--dictionary", type=Path, help="dict.txt of a checkpoint of fairseq (the one beside it)")
    pieces = form.add_mutually_exclusive_group()
    pieces.add_argument("--sentencepiece", type=Path,
                        help="its sentencepiece model (sentencepiece.bpe.model beside it)")  # fmt: skip
    pieces.add_argument("--gpt2", type=Path, metavar="FOLDER",
                        help="folder with GPT-2's encoder.json and vocab.bpe, instead of --sentencepiece")  # fmt: skip


def _load(options, device: str, cut: str, short: str):
    from ..analysis.loading import load_model
    from ..analysis.run import length_of
    from ..analysis.texts import Sentences

    model = load_model(options.model, device, dictionary=options.dictionary, sentencepiece=options.sentencepiece,
                       gpt2=options.gpt2)  # fmt: skip
    return model, Sentences(options.text, model.tokenizer, length_of(model, options.length), cut, short, model.bos,
                            model.eos)  # fmt: skip


def _spectrum(options: argparse.Namespace) -> str:
    if options.suggest_k is not None and not 0 < options.suggest_k < 1:
        raise ValueError(f"--suggest-k is {options.suggest_k:g}; it must be above 0 and below 1")
    if options.suggest_k is None and options.energy is not None:
        raise ValueError("--energy is given and no --suggest-k, whose share it is about; give both or neither")
    from ..analysis.result import suggest
    from ..analysis.run import spectrum

    model, texts = _load(options, options.device, options.cut, options.short)
    found = spectrum(model, texts, options.out, options.sentences, options.index, options.batch, options.check)
    facts, counts = found.facts, found.facts["texts"]
    at_most = "at most " if counts["short"] and options.short == "pad" else ""
    lines = [
        f"{options.out}: {facts['sentences']:,} sentences of {at_most}{facts['n']} tokens "
        f"({options.sentences:,} asked for) from {counts['texts']:,} texts; {counts['short']:,} shorter "
        f"({facts['short_sentences']}), {counts['cut']:,} cut, {counts['unfit']:,} documents left out",
        f"normalised cumulative singular value at index {found.index} of {found.curve.shape[-1]}, mean over heads: "
        + ", ".join(f"layer {i} {value:.3f}" for i, value in enumerate(found.heat.mean(1), start=1)),
    ]  # fmt: skip
    if options.suggest_k is not None:
        energy = options.energy or "values"
        squared = "squared " * (energy == "squares")
        lines.append(f"for {options.suggest_k:g} of the {squared}singular values, at n = {facts['n']}:")
        suggested = suggest(found, options.suggest_k, energy)
        lines += [f"  --sharing {sharing} --projected-dim {k}" for sharing, k in suggested.items()]
    return "\n".join(lines)


def _figure(options: argparse.Namespace) -> str:
    from ..analysis.figures import draw_spectra
    from ..analysis.result import read

    if options.out.exists():
        raise ValueError(f"{options.out} exists; nothing is overwritten")
    draw_spectra(options.out, [read(folder) for folder in options.folders], options.title)
    return str(options.out)


def _attention(options: argparse.Namespace) -> str:
    from ..analysis.run import attention

    model, texts = _load(options, options.device, options.cut, "pad")
    return "\n".join(map(str, attention(model, texts, options.sentence, options.out)))


MODEL_OPTIONS = ("text", "length", "sentences", "dictionary", "sentencepiece", "gpt2")
RANDOM_OPTIONS = ("lengths", "width")


def _theorems(options: argparse.Namespace) -> str:
    wrong = [name for name in (RANDOM_OPTIONS if options.model else MODEL_OPTIONS)
             if getattr(options, name) is not None]  # fmt: skip
    if wrong:
        raise ValueError(f"--{wrong[0]} is given, which is for {'random heads' if options.model else 'a --model'}")
    from ..analysis.theorems import random_groups, run
    from ..files import check_new_folder

    check_new_folder(options.out)
    if options.model:
        groups, facts = _model_heads(options)
    else:
        lengths, width = list(options.lengths or (128, 512, 2048)), 64 if options.width is None else options.width
        groups = random_groups(lengths, width, options.seed)
        facts = {"heads": "random", "lengths": lengths, "width": width}
    found = run(groups, options.out, options.draws, options.epsilon, options.seed, facts)
    lines = [f"{options.out}: theorems.json, theorem1.png, theorem2.png, rank_k.png"]
    for row in found["theorem1"]:
        last = row["theorem"][-1][row["epsilon"].index(0.5)]["value"]
        lines.append(f"n = {row['n']}: ||P|| ||w|| is {row['stretch']['value']:.1f} times ||P w||; "
                     f"theorem 1 holds within 0.5 with probability {last:.2f} at k = {row['k'][-1]}")  # fmt: skip
    return "\n".join(lines)


def _model_heads(options: argparse.Namespace):
    from ..analysis.heads import model_heads

    if not options.text:
        raise ValueError("--model is given and no --text, on which its heads are computed; give both")
    model, texts = _load(options, "cpu", "packed", "skip")
    count = 2 if options.sentences is None else options.sentences
    if count < 1:
        raise ValueError(f"--sentences is {count}; it must be at least 1")
    sentences = list(islice(texts, count))
    if len(sentences) < count:
        raise ValueError(f"--sentences is {count}; the text has {len(sentences)} of {texts.n} tokens")
    facts = {"heads": model.short_name, "text": texts.short_name, "kind": model.kind, "n": texts.n, "sentences": count,
             "identity": model.identity,
             "texts_sha256": [sha for source in texts.identity() for sha in source["sha256"]]}  # fmt: skip
    return [model_heads(model, sentences)], facts
