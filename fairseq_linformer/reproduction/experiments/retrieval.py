"""An encoder that embeds sentences finds what it found before, as a Linformer of k = n / 4.

Held-out articles are split into pieces of 2 L tokens: the first L are a query, the next L the document that it has to
find among those of all pairs, by the cosine of mean-pooled features. hit@10 is the share of the queries
whose document is among the ten nearest. L is short (the graded windows of half of the k positions hold all tokens) or
nearly n. Three seeds draw the pairs; numbers are medians with their extremes. The *old index* has the vectors that the
Transformer made of the documents, next to a Linformer's queries.

**converted**: converted without training, W = 16 has at least 98 % of the Transformer's hit@1 and 99.5 % of its hit@10,
at each L. **E and F**: at the longest L, W = 16 has a higher hit@1 than k = 1 with that window with every seed.
**distilled**: distilled with the term for pooled features, the same two bounds also hold in the old index.

(Written before the first measurement with these pairs. From other pairs of one seed, 340 words long, it was known that
the converted Linformer finds as many as the Transformer, with W = 0 one to four points less.)
"""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...checkpoints.files import read_checkpoint, write_checkpoint
from ...checkpoints.identify import MODEL
from ...checkpoints.models import build_model, open_checkpoint
from ...models.datasets import open_dataset
from ..display import Table, pivot
from ..encoder import EncoderModel, distill, open_encoder
from ..result import Inputs, Parts, Result, Row, Rows, environment, in_words, join, repeated
from ..run import Model, convert
from ..statistics import UNDECIDED, Check, Verdict, decide
from ..text import describe_text, find_shards

TITLE = "Retrieval"
SAYS = "an embedding model as a Linformer finds what it found"
START, END = 0, 2
"""Token IDs of <s> and </s>."""
BATCH = 8
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"n": 32, "window": 4, "lengths": (4, 10), "pairs": 6, "distillation": {"max_update": 2, "batch_size": 8}},
    "encoder": {
        "n": 512,
        "window": 16,
        "lengths": (60, 480),
        "pairs": 300,
        "distillation": {"max_update": 250, "batch_size": 4, "lr": 2e-4, "amp": True},
    },
}
"""``lengths``: L, in tokens. ``pairs``: per seed."""
SEEDS = (1, 2, 3)
TRANSFORMER, LINFORMER, NO_WINDOW, ONE_AVERAGE = "Transformer", "k = n / 4, W", "k = n / 4, W = 0", "k = 1, W"
DISTILLED, POOLED = "distilled", "distilled, pooled"
PARTS: Parts = {scale: dict.fromkeys(("converted", DISTILLED), ("data", "encoder")) for scale in SIZES}
HIT_1, HIT_10 = 0.98, 0.995
"""Least share of the Transformer's hits."""


def run(part: str, scale: str, inputs: Inputs) -> Result:
    sizes = SIZES[scale]
    n, window = sizes["n"], sizes["window"]
    folder = inputs.runs.absolute() / scale / "retrieval"
    encoder = open_encoder(inputs.encoder, n, folder)
    with TemporaryDirectory() as students:
        checkpoints = {TRANSFORMER: encoder}
        if part == DISTILLED:
            for name, weight in ((DISTILLED, 0.0), (POOLED, 1.0)):
                training = {**sizes["distillation"], "pooled_weight": weight}
                model = EncoderModel(n, n // 4, local_window=window)
                checkpoints[name] = distill(model, training, inputs.text, encoder, name.replace(", ", "-"))[0] / MODEL
        else:
            for name, model in {
                LINFORMER: EncoderModel(n, n // 4, local_window=window),
                NO_WINDOW: EncoderModel(n, n // 4),
                ONE_AVERAGE: EncoderModel(n, 1, local_window=window),
            }.items():
                checkpoints[name] = _convert(encoder, model, Path(students, f"{len(checkpoints)}.pt"))
        rows = measure(checkpoints, find_shards(inputs.text)[0], sizes)
    configuration = {**sizes, "encoder": read_checkpoint(encoder)["provenance"]["imported"]}
    return Result(part, scale, rows, environment(inputs, describe_text(inputs.text)), configuration)


def _convert(encoder: Path, model: Model, path: Path) -> Path:
    write_checkpoint(convert(read_checkpoint(encoder), model), path)
    return path


# Measurement


def read_pairs(shard: Path, length: int) -> list[tuple[list[int], list[int]]]:
    """The pairs of a query and its document in the held-out text, without special symbols."""
    return [
        (tokens[start : start + length], tokens[start + length : start + 2 * length])
        for tokens in _read_documents(shard)
        for start in range(0, len(tokens) - 2 * length + 1, 2 * length)
    ]


def _read_documents(shard: Path) -> Iterator[list[int]]:
    """The tokens of each held-out document without </s>; an empty paragraph ends a document."""
    dataset, tokens = open_dataset(shard / "valid"), []
    for i in range(len(dataset)):
        paragraph = dataset[i].tolist()[:-1]
        tokens += paragraph
        if not paragraph or i == len(dataset) - 1:
            yield tokens
            tokens = []


def measure(checkpoints: dict[str, Path], shard: Path, sizes: dict[str, Any]) -> Rows:
    """hit@1 and hit@10 in percent of each model, and of its queries in the old index."""
    models = {name: build_model(open_checkpoint(path)).eval() for name, path in checkpoints.items()}
    rows = Rows()
    for length in sizes["lengths"]:
        pairs = read_pairs(shard, length)
        if (needed := sizes["pairs"]) > len(pairs):
            found = f"{needed} held-out pieces of {2 * length} tokens, got {len(pairs)}"
            raise ValueError(f"--data must have {found}; prepare it with a larger --valid-share")
        hits: dict[tuple[str, str, int], list[float]] = {}
        for seed in SEEDS:
            chosen = random.Random(seed).sample(pairs, sizes["pairs"])
            old_index = None
            for name, model in models.items():
                queries, documents = (embed(model, texts) for texts in zip(*chosen))
                old_index = documents if old_index is None else old_index
                for index, vectors in (("own index", documents), ("old index", old_index)):
                    for at in (1, 10):
                        hits.setdefault((name, index, at), []).append(100 * hit_rate(queries, vectors, at))
        for (name, index, at), values in hits.items():
            where = {"model": name, "index": index, "n": sizes["n"], "tokens": length}
            rows.append(Row(metric=f"hit@{at}", unit="%", **repeated(values), **where))
    return rows


@torch.inference_mode()
def embed(model: Any, texts: Sequence[Sequence[int]]) -> Tensor:
    """(texts, d) mean-pooled features of texts of equal length, normalized."""
    vectors = []
    for tokens in torch.tensor([[START, *text, END] for text in texts]).split(BATCH):
        vectors.append(model(tokens, features_only=True)[0].mean(1))
    return F.normalize(torch.cat(vectors), dim=1)


def hit_rate(queries: Tensor, documents: Tensor, at: int) -> float:
    """The share of queries (m, d) whose document, that of the same row (m, d), is among the ``at`` nearest."""
    scores = queries @ documents.T
    rank = (scores > scores.diagonal().unsqueeze(1)).sum(1)
    return float((rank < at).double().mean())


# Verdicts


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    lengths = sorted({row.tokens for row in rows})
    indexes = ("own index", "old index")
    converted = rows.find("hit@1", model=LINFORMER)
    distilled = rows.find("hit@1", model=POOLED)
    return [
        Verdict(
            "converted",
            "Converted without training, k = n / 4 with a local window finds what the Transformer finds.",
            [check_kept(rows, LINFORMER, length, "own index", at) for length in lengths for at in (1, 10) if converted],
        ),
        Verdict(
            "E and F",
            "On long texts E and F find more than one average next to the same local window.",
            [check_more(rows, lengths[-1])] if converted else [],
        ),
        Verdict(
            "distilled",
            "Distilled with a term for pooled features, it also finds it in the Transformer's index.",
            [
                check_kept(rows, POOLED, length, index, at)
                for length in lengths
                for index in indexes
                for at in (1, 10)
                if distilled
            ],
        ),
    ]


def check_kept(rows: Rows, model: str, tokens: int, index: str, at: int) -> Check:
    """A model's hits are at least a share of the Transformer's."""
    find = partial(rows.find, f"hit@{at}", tokens=tokens)
    ours, theirs = find(model=model, index=index), find(model=TRANSFORMER, index="own index")
    if ours is None or theirs is None:
        return Check(UNDECIDED, f"{model} or the Transformer is not measured")
    needed = (HIT_1 if at == 1 else HIT_10) * theirs.value
    return decide(
        ours.value >= needed, f"{tokens} tokens, {index}: hit@{at} of {model} {in_words(ours)} %; needs ≥ {needed:.2f}"
    )


def check_more(rows: Rows, tokens: int) -> Check:
    ours, control = (
        rows.find("hit@1", model=model, tokens=tokens, index="own index") for model in (LINFORMER, ONE_AVERAGE)
    )
    if ours is None or control is None:
        return Check(UNDECIDED, f"{LINFORMER} or {ONE_AVERAGE} is not measured")
    text = f"{tokens} tokens: hit@1 {in_words(ours)} %; needs more than {in_words(control)} (k = 1)"
    return decide(ours.low > control.high, text)


def tables(results: Sequence[Result]) -> list[Table]:
    found = []
    for result in results:
        for at in (1, 10):
            rows = [Row(row, case=f"{row.index}, {row.tokens} tokens") for row in result.rows.select(f"hit@{at}")]
            found += pivot(f"{result.part.capitalize()}: hit@{at} in percent", rows, "model", "case")
    return found
