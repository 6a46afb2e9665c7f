"""Far-token recall: whether a model finds a value outside the reach of its local window.

A local window alone can lower perplexity and keep accuracy even if E and F contribute nothing; this task needs distant
tokens. Each text has 8 key-value pairs early in noise; at the end each key comes again, followed by a `<mask>` whose
target is its value, 3 n / 8 positions or more away, farther than two layers with the widest window reach. Each of the 8
values occurs once in every text, so a guess is right in 12.5 %.

Accuracy on new sequences, one query of each, 95 % interval by Wilson. **full**: with every seed the interval of full
attention (k = n, E = F = I and frozen) is above 95 %. **control**: with k = 1, whatever the window, its upper end is at
most 5 points above a guess. **E and F**, with their default start and rate, and **E and F (normal start)**, with the
authors': for each window, the mean over seeds of the difference of k = n / 2 to k = 1 (with the default start in both),
with Student's interval, is above 0. **learned**: so is, at each window and each k of at least n / 8, the difference of
trained E and F to E and F that stay the averages over windows which they start as (n / k positions in F; those of E
overlap, with weights that fall from the middle); does not hold if one interval has nothing above 0. (So it fails at k =
n / 2, where both recall everything. Training adds 3 to 4 points at n / 4, and at n / 8 13 to 17 without a window of 16,
-3 with it; k = 4 without a window loses 9. These averages are close to the mean pooling of the paper's section 4. From
the authors' start every k stays at a guess.) If full attention does not recall, nothing else is evaluated: the task or
the budget is then unsuitable. (Until 2026-11-30 *E and F* also asked for no step down from k to k by more than a point,
without asking for evidence that there is none; and there was no *learned*.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...benchmark.measure import measure_once
from ...config import LinformerConfig
from ...modules import LinformerEncoder
from ..page import Table
from ..result import Inputs, Parts, Result, Row, Rows, in_words, join, repeated, significant
from ..run import FIXED, Model, label
from ..verdict import MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, student_interval, wilson

TITLE = "Far-token recall"
SAYS = "E and F of k = n / 2 that start as averages, trained or not, find what is too far for a window"
EVALUATION_SEED = 1000
"""Added to the seed of a run for the sequences that it is evaluated on."""
RECALLED, ABOVE_CHANCE = 0.95, 0.05
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"n": 64, "windows": (0, 4), "ks": (16, 32), "seeds": (1,), "updates": 3, "batch": 4, "sequences": 20},
    "cpu": {
        "n": 128,
        "windows": (0, 4, 16),
        "ks": (4, 16, 32, 64),
        "seeds": (1, 2, 3),
        "updates": 1000,
        "batch": 32,
        "sequences": 1000,
    },
}
"""``sequences``: on which each run is evaluated. ``batch``: sequences per update.

In a trial of ``cpu``, full attention recalled all 1,000 sequences after 500 updates with each of three seeds, and
k = n / 8 all but one after 1,000 with one seed; so there is a smaller k."""
STARTS = (None, "normal")
"""Initializations of E and F; None is the default."""
PARTS: Parts = {scale: {"recall": (), FIXED: ()} for scale in SIZES}


def lines_of(sizes: dict[str, Any], starts: Sequence[str | None] = (*STARTS, FIXED)) -> dict[str, list[Model]]:
    """The Linformers in the order of k, by local window and start; the first is k = 1 with the default start."""
    n = sizes["n"]
    return {
        f"W = {window}, {start or 'default start'}": [
            Model(n, 1, local_window=window),
            *(Model(n, k, start=start, local_window=window) for k in sizes["ks"]),
        ]
        for window in sizes["windows"]
        for start in starts
    }


def full_attention(sizes: dict[str, Any]) -> Model:
    """k = n with E = F = I, which is what windows of one position average."""
    return Model(sizes["n"], sizes["n"], start="average")


def models_of(sizes: dict[str, Any], part: str) -> list[Model]:
    """The models of a part."""
    if part == FIXED:
        return [model for line in lines_of(sizes, [FIXED]).values() for model in line[1:]]
    lines = [[full_attention(sizes)], *lines_of(sizes, STARTS).values()]
    return list(dict.fromkeys(model for line in lines for model in line))


def run(inputs: Inputs) -> Result:
    """A rerun resumes: models that are in RUNS/SCALE/recall/PART.json are not trained again."""
    sizes, path, rows, spent = SIZES[inputs.scale], inputs.folder / "recall" / f"{inputs.part}.json", Rows(), 0.0
    for seed in sizes["seeds"]:
        for model in models_of(sizes, inputs.part):
            found, seconds = measure_once(path, partial(measure, cases=[model], seed=seed, sizes=sizes))
            rows += found
            spent += seconds
    return inputs.result(rows, "none: random sequences of a seed", sizes, seconds=round(spent, 1))


def measure(cases: Sequence[Model], seed: int, sizes: dict[str, Any]) -> list[Row]:
    """Train models, and evaluate them: the share of recalled sequences."""
    rows = []
    for model in cases:
        trained = RecallModel(RecallTask(model.n), model, seed)
        train_model(trained, seed, sizes["updates"], sizes["batch"])
        share = count_recalled(trained, EVALUATION_SEED + seed, sizes["sequences"]) / sizes["sequences"]
        low, high = (significant(end) for end in wilson(share, sizes["sequences"]))
        found = {"value": share, "low": low, "high": high, "repetitions": sizes["sequences"]}
        rows.append(Row(metric="accuracy", unit="share of sequences", **found, **model.fields, seed=seed))
    return rows


# Verdicts


CLAIMS = {
    "full": "Full attention recalls values that are far away.",
    "control": "With k = 1 a model guesses, whatever its local window: the task requires distance.",
    "E and F": "E and F of k = n / 2, with the default start, recall more than k = 1.",
    "E and F (normal start)": "E and F of k = n / 2, with the authors' start, recall more than k = 1.",
    "learned at every k": "Trained E and F recall more than the averages over windows that they start as.",
}


def estimates(rows: Rows, **where: Any) -> list[Estimate]:
    return [
        Estimate(row.value, row.low, row.high, f"{label(row)}, seed {row.seed}")
        for row in rows.select("accuracy", **where)
    ]


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    if not rows.find("accuracy", k=1):  # at most the fixed averages
        return [Verdict(name, claim, []) for name, claim in CLAIMS.items()]
    sizes = SIZES[results[0].scale]
    limit = RecallTask(sizes["n"]).chance + ABOVE_CHANCE
    full = [each.more_than(RECALLED) for each in estimates(rows, **full_attention(sizes).fields)]
    control = [each.at_most(limit) for each in estimates(rows, k=1)]
    gains = [gain_checks(rows, sizes, start) for start in STARTS]
    learned = learned_checks(rows, sizes) if rows.find("accuracy", start=FIXED) else []
    checks = dict(zip(CLAIMS, [full, control, *gains, learned], strict=True))
    return [Verdict(name, claim, checks[name], full if name != "full" else ()) for name, claim in CLAIMS.items()]


def gain_checks(rows: Rows, sizes: dict[str, Any], start: str | None) -> list[Check]:
    """The largest k is more accurate than k = 1."""
    return [recalls_more(rows, models[-1], models[0]) for models in lines_of(sizes, [start]).values()]


def learned_checks(rows: Rows, sizes: dict[str, Any]) -> list[Check]:
    """Each k of at least n / 8 is more accurate with trained E and F than with fixed ones."""
    lines = zip(*(lines_of(sizes, [start]).values() for start in (None, FIXED)))
    pairs = [pair for line in lines for pair in zip(*line) if 8 * pair[0].k >= sizes["n"]]
    return [recalls_more(rows, *pair) for pair in pairs]


def recalls_more(rows: Rows, after: Model, before: Model) -> Check:
    """The mean over seeds of the difference in accuracy is above 0, by Student's 95 % interval."""
    a, b = (rows.select("accuracy", **model.fields) for model in (after, before))
    text = f"accuracy of {after.label} minus that of {before.label}"
    if len(a) < MIN_SEEDS:
        return Check(UNDECIDED, f"{text} needs {MIN_SEEDS} seeds")
    return Estimate(*student_interval([x.value - y.value for x, y in zip(a, b, strict=True)]), text).more_than(0)


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Mean accuracy over seeds, and the lowest and highest, by local window, start and k."""
    rows, sizes = join(results), SIZES[results[0].scale]

    def cell(model: Model) -> str:
        values = [100 * row.value for row in rows.select("accuracy", **model.fields)]
        return in_words(Row(repeated(values, fmean)) if values else None)

    head = ["model", "k = 1, default start", *(f"k = {k}" for k in (*sizes["ks"], sizes["n"]))]
    cells = [["full attention", *[""] * (len(head) - 2), cell(full_attention(sizes))]]
    cells += [[name, *map(cell, models), ""] for name, models in lines_of(sizes).items()]
    return [Table(f"Accuracy in %, n = {sizes['n']}, mean over seeds [lowest, highest]", head, cells)]


# Task and model

START, PADDING, MASK, NUM_SPECIAL = 0, 1, 2, 3
"""Token IDs; values follow, then keys, then noise."""
POSITION_STD = 0.3
"""Standard deviation of new position embeddings, relative to that of token embeddings."""
LAYERS, WIDTH, HEADS = 2, 32, 2
"""Sizes of the encoder; its feed-forward layers are twice as wide."""
LEARNING_RATE, WARMUP = 5e-3, 50
"""The learning rate, and the updates in which it rises. It is constant until it decays."""
MAX_NORM = 1.0
"""Gradients are clipped to this norm."""
DECAYING_SHARE = 0.3
"""Final share of the updates, over which the learning rate decays to zero."""
CHUNK = 2**15
"""Tokens of a forward pass in the evaluation."""


@dataclass(frozen=True)
class RecallTask:
    """Sequences of key-value pairs, and queries of the values at the end.

    <s>  early part: noise, and pairs "key value" anywhere in it  |  noise  |  key <mask>  key <mask> ...

    The pairs are those of multi-query associative recall (Arora et al. 2023, "Zoology"). At the end every key of the
    early part comes once more, in random order, each followed by a ``<mask>`` whose target is its value.

    - Several pairs, because with one a model could answer with the only value token of the text.
    - There are as many values as pairs, and each pair has a different one, so every sequence has every value once. The
      set of its tokens then says nothing about an answer, and an average over all positions does no better than chance.
    - Pairs start at any position of the early part, which is many windows long, so that no fixed row of E and F finds
      one.
    - Every value is farther from the queries than the local windows of all layers and the left neighbor reach together.

    Attributes:
        n: length of every sequence.
        num_pairs: pairs per sequence, and number of values.
        num_keys, num_noise: different keys and noise tokens.
    """

    n: int
    num_pairs: int = 8
    num_keys: int = 16
    num_noise: int = 16

    @property
    def distance(self) -> int:
        """Least distance from a value to the first queried key."""
        return 3 * self.n // 8

    @property
    def early(self) -> int:
        """Positions of the early part; they begin at 1."""
        return self.n - 2 * self.num_pairs - self.distance

    @property
    def first_key(self) -> int:
        """Token ID."""
        return NUM_SPECIAL + self.num_pairs

    @property
    def vocab_size(self) -> int:
        return self.first_key + self.num_keys + self.num_noise

    @property
    def chance(self) -> float:
        """Accuracy of a guess."""
        return 1 / self.num_pairs

    @property
    def queries(self) -> Tensor:
        """(num_pairs,) positions of the masks."""
        return self.n - 2 * self.num_pairs + 1 + 2 * torch.arange(self.num_pairs)

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """
        Returns:
            (batch, n) token IDs, and (batch, num_pairs) the value of each query, counted from 0.
        """

        def choose(num: int) -> Tensor:
            """(batch, num_pairs) different numbers below ``num``, in random order."""
            return torch.rand(batch, num, generator=generator).argsort(1)[:, : self.num_pairs]

        tokens = torch.randint(self.first_key + self.num_keys, self.vocab_size, (batch, self.n), generator=generator)
        tokens[:, 0] = START
        # Pairs of two positions that do not overlap: draw from the positions that remain if each pair takes one.
        key_positions = 1 + choose(self.early - self.num_pairs).sort(1).values + torch.arange(self.num_pairs)
        keys, values, order = self.first_key + choose(self.num_keys), choose(self.num_pairs), choose(self.num_pairs)
        tokens.scatter_(1, key_positions, keys).scatter_(1, key_positions + 1, NUM_SPECIAL + values)
        tokens[:, self.queries - 1], tokens[:, self.queries] = keys.gather(1, order), MASK
        return tokens, values.gather(1, order)


class RecallModel(nn.Module):
    """A narrow pre-norm encoder, an embedding of the left neighbor, and an output layer of its own.

    The embedding of a token adds one of its left neighbor, which binds a value to its key. Binding neighbors is local,
    and is not tested here: with it, one attention from a query to the value that follows its key solves the task.
    Without it, full attention (n = 48, 4 pairs) was at chance after 600 updates of 32 sequences.

    With tied output, 3 of the 8 values became the same in one of two seeds of full attention, and 1,000 updates did not
    separate them (accuracy 75 %): a difference that input and output share has a gradient of second order.

    The weights are N(0, 1 / width) or N(0, 1 / inputs): BERT's standard deviation, 0.02, is that of a width of 768.

    Args:
        task: has n and the vocabulary.
        model: a Linformer; that of k = n is frozen, so that with E = F = I it is the Transformer.
        seed: of the weights; PyTorch's random state stays as it is.
    """

    @torch.random.fork_rng(devices=[])
    def __init__(self, task: RecallTask, model: Model, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.task = task
        frozen = {"freeze_projections": True} if model.k == model.n else {}
        config = LinformerConfig(
            **{**model.options, **frozen},
            vocab_size=task.vocab_size,
            layers=LAYERS,
            embed_dim=WIDTH,
            ffn_embed_dim=2 * WIDTH,
            attention_heads=HEADS,
            normalize_before=True,
            dropout=0.0,
            attention_dropout=0.0,
            padding_idx=PADDING,
        )
        self.encoder = LinformerEncoder(config)
        self.left_neighbor = nn.Embedding(task.vocab_size, WIDTH)
        self.output = nn.Linear(WIDTH, task.num_pairs)
        std = 1 / math.sqrt(WIDTH)
        for embedding in (self.encoder.embed_tokens, self.left_neighbor):
            nn.init.normal_(embedding.weight, std=std)
        nn.init.normal_(self.encoder.embed_positions.weight, std=POSITION_STD * std)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=1 / math.sqrt(module.in_features))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits of the values at positions.

        Args:
            tokens: (B, n)
            positions: (m,)

        Returns:
            (B, m, number of values)
        """
        embeddings = self.encoder.embed_tokens(tokens) + self.left_neighbor(F.pad(tokens[:, :-1], (1, 0), value=START))
        features, _ = self.encoder(
            tokens, positions.expand(tokens.size(0), -1), token_embeddings=embeddings, padded=False
        )
        logits: Tensor = self.output(features)
        return logits


def train_model(model: RecallModel, seed: int, updates: int, batch: int) -> None:
    """Adam on new sequences in every update; the loss is that of the masked positions.

    Args:
        seed: of the sequences.
        batch: sequences per update.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    queries = model.task.queries
    for update in range(updates):
        left = (updates - update) / (DECAYING_SHARE * updates)
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (update + 1) / WARMUP, left)
        tokens, targets = model.task.draw(batch, generator)
        loss = F.cross_entropy(model(tokens, queries).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()


@torch.no_grad()
def count_recalled(model: RecallModel, seed: int, sequences: int) -> int:
    """How many of the sequences of a seed have the right value at their last query.

    The other queries are not counted: answers to one sequence are not independent trials.
    """
    task, generator, recalled = model.task, torch.Generator().manual_seed(seed), 0
    batch = CHUNK // task.n
    for first in range(0, sequences, batch):
        tokens, targets = task.draw(min(batch, sequences - first), generator)
        answers = model(tokens, task.queries[-1:]).argmax(-1).squeeze(1)
        recalled += int((answers == targets[:, -1]).sum())
    return recalled
