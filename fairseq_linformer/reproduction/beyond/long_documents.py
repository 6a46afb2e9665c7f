"""Documents longer than an encoder reads: a Linformer made of it next to what one would do instead; quality and speed.

The encoder reads p = 512 tokens. Documents of up to n tokens are read by: the **first piece** of p tokens; **both
ends** (128 and 382 tokens, as Sun et al. 2019); **pieces** of p tokens, whose logits or vectors are averaged; the
**nearest piece** to a query, and **half pieces** of p / 2 tokens, of embedding models; **half the layers**, the first
three, on the first piece; the **Transformer** grown to n positions, with copies of its position embeddings; and
**Linformers** of n converted from it, of k = 256 without and with a local window of 16 (**W**), and as a control of k =
2 with the window: <s>, and one average of all other tokens, in E with weights that fall from the middle.

**imdb**: n = 1,024; each is finetuned for one epoch on the same 2,500 reviews, as in Table 2, with three seeds (pieces
are read by the model of the first piece), and classifies 12,500 others. Compared on those longer than p. **retrieval**:
n = 2,048, without training; pieces are as few as possible, of equal lengths. Of 999 articles of at least n tokens, a
paragraph of 40 to 100 words is removed, and has to find its article by the cosine of mean-pooled features; queries are
read by the encoder, or its first layers. A third of the queries each is from the first p tokens, the next p, and
farther. Compared by hit@1; tf-idf of the words of the paragraphs that begin in the first n tokens is the bar for all.
Pieces, too, are of the first n tokens. **speed**: documents of n random tokens per second, random weights, two threads,
all in turn in each of five rounds (three from n = 8,192 on), pieces of exactly p tokens (in retrieval they are up to a
fifth shorter); a classifier computes only the first position in its last layer, an embedding model all of them.

Qualities are compared document by document: the difference in points with the bootstrap's 95 % interval over documents
and seeds. Speeds are compared at the task's n, by the slowest and the fastest round. Of the Linformer with W, for each
task:

**keeps**: it is at most 1 point below the Transformer (the lower end of the interval is at least -1), and faster in
every round. Does not hold if the upper end is below -1, or if it is faster in no round. **pieces**: better than pieces
(the interval is above 0) and not slower in every round, or faster in every round and at most 1 point below. Does not
hold if it is slower in every round, or the upper end is below -1. **E and F**: better than k = 2 with W, in retrieval
also for the farthest third of the queries alone (this condition was added after the run); does not hold if the interval
has nothing above 0. Next to "pieces" other differences are reported: to the first piece or both ends, to readers that
are not timed, to the Linformer without W, and to k = 2; and of pieces and of that Linformer to the first piece.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...benchmark.timing import num_threads
from ...checkpoints.files import read_checkpoint
from ...checkpoints.models import build_model, open_checkpoint
from ...data.manifest import describe_source
from ...data.sources import locate_source, parse_source
from ...data.tokenizer import load_tokenizer
from ...data.tokenizer_files import DICTIONARY, find_tokenizer_files
from ...evaluation.fairseq_classifier import FairseqClassifier, read_prepared_rows
from ...evaluation.predict import Throughput, predict
from ..benchmarks import ratio_rows
from ..document_models import (
    ENDS,
    HALVES,
    HEAD,
    INT8,
    MINILM,
    NEAREST,
    PIECES,
    SMOKE,
    Reader,
    time_readers,
    truncate_ids,
    write_reader,
)
from ..encoder import open_encoder
from ..finetuned import encoder_job, finetune_once, finetuned_result, task_folder
from ..page import Panel, Table, pivot
from ..paired import answer_row, answers_of, difference, unpack
from ..result import Inputs, Parts, Result, Row, Rows, describe_files, join, repeated
from ..retrieval import PLACES, choose_candidates, find_by_reader, find_by_words
from ..run import CONTROL_K, Model
from ..verdict import FAILS, HOLDS, UNDECIDED, Check, Estimate, Verdict

TITLE = "Long documents"
SAYS = "a Linformer of an encoder that reads whole documents is worth it next to the alternatives"
FIRST, BOTH_ENDS, CUT, HALF_PIECES, HALF_LAYERS, TRANSFORMER, WITHOUT_W, LINFORMER, CONTROL = (
    *("first piece", "both ends", PIECES, HALVES, "half the layers"),
    *("Transformer", "Linformer", "Linformer, W", f"k = {CONTROL_K}, W"),
)
WORDS = "tf-idf"
POINT = 1.0
"""Of accuracy or hit@1: "at most 1 point below"."""
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "n": {"imdb": 32, "retrieval": 64},
        "piece": 16,
        "k": 8,
        "window": 4,
        "keep_layers": 1,
        "finetuning": (1e-3, 8),
        "seeds": (1,),
        "candidates": 3,
        "words": (2, 40),
        "lengths": {32: 2},
        "tokens": 64,
        **SMOKE,
    },
    "encoder": {
        "n": {"imdb": 1024, "retrieval": 2048},
        "piece": 512,
        "k": 256,
        "window": 16,
        "keep_layers": 3,
        "finetuning": (1e-4, 16),
        "seeds": (1, 2, 3),
        "candidates": 999,
        "words": (40, 100),
        "lengths": {512: 5, 1024: 5, 2048: 5, 4096: 5, 8192: 3, 16384: 3},
        "tokens": 2048,
        **MINILM,
    },
}
"""``finetuning``: learning rate and batch size. ``lengths``: n of the speed, and rounds. ``tokens``: of a round, or one
document."""
METRICS = {"imdb": "accuracy", "retrieval": "hit@1"}
NOT_EMBEDDED = (BOTH_ENDS,)
NOT_CLASSIFIED = (NEAREST, HALF_PIECES)


def readers(n: int, sizes: Mapping[str, Any]) -> dict[str, Reader]:
    """The compared readers by name; ``sizes`` has ``piece``, ``k``, ``window`` and ``keep_layers``."""
    piece, k, window = sizes["piece"], sizes["k"], sizes["window"]
    return {
        FIRST: Reader(Model(piece)),
        BOTH_ENDS: Reader(Model(piece), ENDS),
        CUT: Reader(Model(piece), PIECES),
        NEAREST: Reader(Model(piece), NEAREST),
        HALF_PIECES: Reader(Model(piece // 2), HALVES),
        HALF_LAYERS: Reader(Model(piece), layers=sizes["keep_layers"]),
        TRANSFORMER: Reader(Model(n)),
        WITHOUT_W: Reader(Model.graded(n, k)),
        LINFORMER: Reader(Model.graded(n, k, local_window=window)),
        CONTROL: Reader(Model.graded(n, CONTROL_K, local_window=window)),
    }


@cache
def readers_of(task: str, scale: str) -> dict[str, Reader]:
    """The readers of a task by name."""
    left_out = NOT_CLASSIFIED if task == "imdb" else NOT_EMBEDDED
    every = readers(SIZES[scale]["n"][task], SIZES[scale])
    return {name: reader for name, reader in every.items() if name not in left_out}


def find_encoder(inputs: Inputs) -> Path:
    """The checkpoint of the encoder."""
    return open_encoder(inputs.encoder, SIZES[inputs.scale]["piece"], inputs.folder / "long_documents")


# IMDB


def measure_imdb(name: str, seed: int, inputs: Inputs) -> Result:
    """Finetune a reader, and classify the rows of ``imdb-whole``, which are not truncated."""
    sizes, reader, encoder = SIZES[inputs.scale], readers_of("imdb", inputs.scale)[name], find_encoder(inputs)
    trained = replace(reader, reading=HEAD) if reader.reading == PIECES else reader
    data = task_folder("imdb", reader.model.n, inputs, ENDS if reader.reading == ENDS else None)
    start, folder = write_reader(trained, encoder, encoder.parent), f"imdb-{trained.name}-{trained.reading}-seed{seed}"
    job = encoder_job("imdb", start, sizes["finetuning"], seed, folder, data, encoder.parent)
    checkpoint, found = finetune_once(job)
    classifier = FairseqClassifier(checkpoint, dictionary=data / "input0" / DICTIONARY)
    answers, is_long = classify(classifier, reader, inputs.tasks / "imdb-whole", sizes)
    measured = [answer_row(answers, "accuracy", reader=name, n=sizes["n"]["imdb"], seed=seed)]
    if name == FIRST:  # equal for all
        measured.append(answer_row(is_long, "longer", n=sizes["n"]["imdb"], seed=seed))
    return finetuned_result(measured, [found], found["data"], inputs, recipe=found["recipe"], model=found["model"])


def classify(
    classifier: FairseqClassifier, reader: Reader, data: Path, sizes: Mapping[str, Any]
) -> tuple[list[bool], list[bool]]:
    """Whether each row is classified correctly, and whether it is longer than a piece; pieces are of its first n
    tokens."""
    truncated = Reader(Model(sizes["n"]["imdb"])) if reader.cuts else reader
    total, rows = read_prepared_rows(classifier, data, "valid", truncated=False)
    every = list(rows)
    read = (replace(row, encoded={"input_ids": truncate_ids(row.encoded["input_ids"], truncated)}) for row in every)
    stride = reader.model.n - 2 if reader.reading == PIECES else None
    found = predict(classifier, read, Throughput(), total=total, stride=stride)
    answers = [int(logits.argmax()) == row.target for row, logits in found]
    return answers, [len(row.encoded["input_ids"]) > sizes["piece"] for row in every]


# Retrieval


def measure_retrieval(name: str, inputs: Inputs) -> Result:
    """Find every article by its query."""
    sizes, n, encoder = SIZES[inputs.scale], SIZES[inputs.scale]["n"]["retrieval"], find_encoder(inputs)
    files = find_tokenizer_files(encoder.parent)
    assert files is not None  # ``open_encoder`` writes them
    tokenizer = load_tokenizer(files, encoder.parent / DICTIONARY)
    candidates = choose_candidates(inputs.source, tokenizer, sizes["candidates"], n, sizes["piece"], sizes["words"])
    if name == WORDS:
        ranks = find_by_words(candidates)
    else:
        reader = readers_of("retrieval", inputs.scale)[name]
        query_reader = Reader(Model(sizes["piece"]), layers=reader.layers)
        ranks = find_by_reader(open_reader(query_reader, encoder), open_reader(reader, encoder), reader, candidates)
    rows = Rows(answer_row(ranks < at, f"hit@{at}", reader=name, n=n) for at in (1, 10))
    rows += [answer_row([each.place == place for each in candidates], "from", place=place, n=n) for place in PLACES]
    data = describe_files(describe_source(locate_source(parse_source(source))) for source in inputs.source)
    configuration = {"encoder": read_checkpoint(encoder)["provenance"]["imported"]}
    return inputs.result(rows, data, configuration)


def open_reader(reader: Reader, encoder: Path) -> Any:
    """The model of a reader made from an encoder."""
    return build_model(open_checkpoint(write_reader(reader, encoder, encoder.parent))).eval()


# Speed


def measure_speed(n: int, inputs: Inputs) -> Result:
    """Documents per second of every reader, as classifiers and as embedding models."""
    sizes, rows = SIZES[inputs.scale], Rows()
    left_out = (*NOT_EMBEDDED, *NOT_CLASSIFIED)
    timed = {name: reader for name, reader in readers(n, sizes).items() if name not in left_out}
    timed |= {name + INT8: timed[name] for name in (WITHOUT_W, LINFORMER)}
    with num_threads(sizes["threads"]), TemporaryDirectory() as folder:
        for task in METRICS:
            embeds = task == "retrieval"
            compared = {name: reader for name, reader in timed.items() if not (embeds and name.endswith(INT8))}
            documents, seconds = time_readers(compared, n, sizes["lengths"][n], sizes, embeds, Path(folder))
            for name, times in seconds.items():
                rates = repeated([documents / each for each in times])
                rows.append(Row(metric="rate", unit="documents per second", task=task, reader=name, n=n, **rates))
            pairs = [(model, other) for other in (TRANSFORMER, CUT) for model in (WITHOUT_W, LINFORMER)]
            rows += ratio_rows(seconds, pairs, task=task, n=n)
    return inputs.result(rows, "random tokens", {"sizes": sizes})


# Parts


Part = tuple[tuple[str, ...], Callable[[Inputs], Result]]
"""The options of ``reproduce`` that a part reads, and the function that measures it."""


def parts_of(scale: str) -> dict[str, Part]:
    """The parts by name."""
    sizes = SIZES[scale]
    parts: dict[str, Part] = {
        f"imdb: {name}, seed {seed}": (("tasks", "encoder"), partial(measure_imdb, name, seed))
        for seed in sizes["seeds"]
        for name in readers_of("imdb", scale)
    }
    for name in (*readers_of("retrieval", scale), WORDS):
        parts[f"retrieval: {name}"] = ("source", "encoder"), partial(measure_retrieval, name)
    return parts | {f"speed: n = {n:,}": ((), partial(measure_speed, n)) for n in sizes["lengths"]}


PARTS: Parts = {scale: {part: reads for part, (reads, _) in parts_of(scale).items()} for scale in SIZES}


def run(inputs: Inputs) -> Result:
    return parts_of(inputs.scale)[inputs.part][1](inputs)


# Verdicts


class Quality:
    """Quality and speed of the readers of a task, from the rows of all parts."""

    def __init__(self, task: str, rows: Rows, sizes: Mapping[str, Any]):
        self.task, self.rows, self.n, self.metric = task, rows, sizes["n"][task], METRICS[task]
        self.seeds = len(sizes["seeds"]) if task == "imdb" else 1

    def difference(self, a: str, b: str, place: str = "") -> Estimate | None:
        """Share of right answers of ``a`` minus that of ``b``, in points, of the long reviews, of all queries or of
        those from a place; None if something is not measured with every seed."""
        x, y = (answers_of(self.rows, self.metric, reader=reader, n=self.n) for reader in (a, b))
        group = {"metric": "longer"} if self.task == "imdb" else {"metric": "from", "place": place} if place else {}
        chosen = self.rows.find(**group, n=self.n) if group else None
        if not len(x) == len(y) == self.seeds or (group and not chosen):
            return None
        compared = unpack(chosen) if chosen else slice(None)
        where = f"query from the {place}, " * bool(place)
        return difference([(x[:, compared], y[:, compared])], f"{self.task}, {where}{a} minus {b}, points")

    def speed(self, other: str) -> Estimate | None:
        """How many times as fast as another reader the Linformer with W is, between the slowest and the fastest round;
        None if it is not measured."""
        found = self.rows.find("time_ratio", task=self.task, n=self.n, model=LINFORMER, baseline=other)
        text = f"{self.task}, n = {self.n:,}, times as fast as {other}"
        return Estimate(found.value, found.low, found.high, text) if found else None


def worth(change: Estimate, speed: Estimate) -> Check:
    """Better and not slower, or faster and at most a point below."""
    is_better = change.low > 0 and speed.low >= 1
    is_faster = speed.low > 1 and change.low >= -POINT
    fails = speed.high < 1 or change.high < -POINT
    return Check(HOLDS if is_better or is_faster else FAILS if fails else UNDECIDED, f"{change}; {speed}")


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows, found = join(results), []
    scale = results[0].scale if results else "encoder"
    for task in METRICS:
        quality = Quality(task, rows, SIZES[scale])
        checks = {
            "keeps": [
                _check(lambda change: change.at_least(-POINT), quality.difference(LINFORMER, TRANSFORMER)),
                _check(lambda speed: speed.more_than(1.0), quality.speed(TRANSFORMER)),
            ],
            "pieces": [_check(worth, quality.difference(LINFORMER, CUT), quality.speed(CUT))],
            "E and F": [
                _check(lambda change: change.more_than(0.0), quality.difference(LINFORMER, CONTROL, place))
                for place in (("", PLACES[-1]) if task == "retrieval" else ("",))
            ],
        }
        is_measured = bool(rows.select(METRICS[task]))
        for name, claim in CLAIMS.items():
            pairs = REPORTED if name == "pieces" else ()
            remarks = [str(each) for pair in pairs if (each := quality.difference(*pair))]
            found.append(Verdict(f"{name}, {task}", claim, checks[name] if is_measured else [], remarks=remarks))
    return found


CLAIMS = {
    "keeps": "A Linformer with W is as good as the Transformer of its n, and faster.",
    "pieces": "A Linformer with W is worth it next to reading pieces of p tokens with the encoder.",
    "E and F": "Next to the window, E and F find more than <s> and one weighted average of the document.",
}
REPORTED = [
    *((LINFORMER, name) for name in (FIRST, BOTH_ENDS, *NOT_CLASSIFIED, WORDS, WITHOUT_W, CONTROL)),
    *((name, FIRST) for name in (CUT, WITHOUT_W)),
]
"""Pairs of readers whose difference is a remark."""


def _check(rule: Callable[..., Check], *estimates: Estimate | None) -> Check:
    return rule(*estimates) if all(estimates) else Check(UNDECIDED, "not all of its readers are measured")


# Tables and charts


def quality_rows(results: Sequence[Result]) -> Rows:
    """Quality of each reader in percent, over its seeds, on all documents and by group."""
    rows, found = join(results), Rows()
    for task, metric in METRICS.items():
        n = SIZES[results[0].scale]["n"][task]
        groups: dict[str, Any] = {"all": slice(None)}
        if longer := rows.find("longer", n=n):
            groups[f"longer than {SIZES[results[0].scale]['piece']} tokens"] = unpack(longer)
        groups |= {f"query from the {row.place}": unpack(row) for row in rows.select("from", n=n)}
        for name in (*readers_of(task, results[0].scale), WORDS):
            answers = answers_of(rows, metric, reader=name, n=n)
            for group, chosen in groups.items() if len(answers) else ():
                values = [100 * float(each[chosen].mean()) for each in answers]
                found.append(Row(metric=metric, task=task, reader=name, n=n, group=group, **repeated(values)))
    return found


def tables(results: Sequence[Result]) -> list[Table]:
    rows, quality = join(results), quality_rows(results)
    found = []
    for task, metric in METRICS.items():
        title = f"{task}: {metric} in percent{', median over seeds [extremes]' * (task == 'imdb')}"
        found += pivot(title, quality.select(metric), "reader", "group")
        title = f"Documents of n tokens per second, {'mean-pooled features' if task == 'retrieval' else 'classified'}"
        rates, ratios = (sorted(rows.select(name, task=task), key=lambda row: row.n) for name in ("rate", "time_ratio"))
        found += pivot(title, rates, "reader", "n")
        named = [Row(row, compared=f"{row.model} over {row.baseline}") for row in ratios]
        found += pivot("Times as fast, round by round", named, "compared", "n")
    return found


def chart(results: Sequence[Result]) -> list[Panel]:
    """Quality over documents per second, a point per reader."""
    rows, panels = join(results), []
    for task, metric in METRICS.items():
        points: dict[str, list[list[tuple[float, float]]]] = {}
        for row in quality_rows(results).select(metric, task=task, group="all"):
            rate = rows.find("rate", task=task, reader=row.reader, n=row.n)
            points |= {row.reader: [[(rate.value, row.value)]]} if rate else {}
        if points:
            panels.append(Panel(f"{task}, n = {row.n:,}", "documents per second", f"{metric} in %", points))
    return panels
