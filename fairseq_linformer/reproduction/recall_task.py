"""Far-token recall: sequences of key-value pairs, a small encoder that recalls the values, and its training.

    <s>  early part: noise, and pairs "key value" anywhere in it  |  noise  |  key <mask>  key <mask> ...

The pairs are those of multi-query associative recall (Arora et al. 2023, "Zoology"). At the end every key of the early
part comes once more, in random order, each followed by a ``<mask>`` whose target is its value.

- Several pairs, because with one a model could answer with the only value token of the text.
- There are as many values as pairs, and each pair has a different one, so every sequence has every value once. The set
  of its tokens then says nothing about an answer, and an average over all positions does no better than chance.
- Pairs start at any position of the early part, which is many windows long, so that no fixed row of E and F finds one.
- Every value is farther from the queries than local windows reach over all layers (``RecallModel.reach``).

The embedding of a token adds one of its left neighbor, which binds a value to its key. Binding neighbors is local, and
is not tested here: with it, one attention from a query to the value that follows its key solves the task. Without it,
full attention (n = 48, 4 pairs) was at chance after 600 updates of 32 sequences.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.projection import Projection
from ..modules.resize import resize_positions, resize_projection

START, PADDING, MASK, NUM_SPECIAL = 0, 1, 2, 3
"""Token IDs; values follow, then keys, then noise."""
POSITION_STD = 0.3
"""Standard deviation of new position embeddings, relative to that of token embeddings."""
MAX_NORM = 1.0
"""Gradients are clipped to this norm."""
DECAYING_SHARE = 0.3
"""Final share of the updates, over which the learning rate decays to zero."""


@dataclass(frozen=True)
class RecallTask:
    """
    Attributes:
        n: length of every sequence.
        distance: least distance from a value to the first queried key.
        num_pairs: pairs per sequence, and number of values.
        num_keys, num_noise: different keys and noise tokens.

    Raises:
        ValueError: the early part is too short for the pairs, or a number is too small.
    """

    n: int
    distance: int
    num_pairs: int = 8
    num_keys: int = 16
    num_noise: int = 16

    def __post_init__(self) -> None:
        for name, least in (("distance", 1), ("num_pairs", 2), ("num_keys", self.num_pairs), ("num_noise", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.early < 2 * self.num_pairs:
            longest = self.n - 4 * self.num_pairs
            raise ValueError(
                f"distance must be at most {longest} with n = {self.n} and {self.num_pairs} pairs, got {self.distance}"
            )

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

    With tied output, 3 of the 8 values became the same in one of two seeds of full attention, and 1,000 updates did not
    separate them (accuracy 75 %): a difference that input and output share has a gradient of second order.

    The weights are N(0, 1 / width) or N(0, 1 / inputs): BERT's standard deviation, 0.02, is that of a width of 768.

    Args:
        task: has n and the vocabulary.
        k: n for full attention: E = F = I and frozen, which is the Transformer.
        start: ``projection_init``; None for the default.
        local_window: W.
        layers, width, heads: of the encoder; its feed-forward layers are twice as wide.

    Raises:
        ValueError: a local window reaches from a query to a value.
    """

    def __init__(
        self, task: RecallTask, k: int, start: str | None, local_window: int, layers: int, width: int, heads: int
    ):
        super().__init__()
        self.reach = layers * local_window + 1
        if self.reach >= task.distance:
            raise ValueError(
                f"local_window must reach less than the distance ({task.distance}) over {layers} layers and the left "
                f"neighbor, got {local_window}, which reaches {self.reach}"
            )
        is_full = k == task.n
        config = LinformerConfig(
            vocab_size=task.vocab_size,
            max_positions=task.n,
            projected_dim=k,
            projection_init="average" if is_full else start,
            freeze_projections=is_full,
            local_window=local_window,
            layers=layers,
            embed_dim=width,
            ffn_embed_dim=2 * width,
            attention_heads=heads,
            normalize_before=True,
            dropout=0.0,
            attention_dropout=0.0,
            padding_idx=PADDING,
        )
        self.encoder = LinformerEncoder(config)
        self.left_neighbor = nn.Embedding(task.vocab_size, width)
        self.output = nn.Linear(width, task.num_pairs)
        std = 1 / math.sqrt(width)
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


def build_model(seed: int, *arguments, **options) -> RecallModel:
    """``RecallModel`` with weights of a seed, which leaves PyTorch's random state as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RecallModel(*arguments, **options)


def grow(old: RecallModel, new: RecallModel) -> None:
    """Copy the weights of a model to one of a longer n, and possibly another k: position embeddings are repeated, and E
    and F resized. Frozen E and F, of full attention, are not copied."""
    with torch.no_grad():
        state = old.state_dict()
        name = "encoder.embed_positions.weight"
        state[name] = resize_positions(state[name], new.encoder.config.max_positions, PADDING)
        projections = {key: module for key, module in new.named_modules() if isinstance(module, Projection)}
        new.load_state_dict({k: v for k, v in state.items() if not k.startswith(tuple(projections))}, strict=False)
        for key, module in projections.items():
            source = old.get_submodule(key)
            if isinstance(source, Projection) and any(p.requires_grad for p in module.parameters()):
                resize_projection(source, module)


def train(
    model: RecallModel, task: RecallTask, seed: int, updates: int, batch: int, lr: float, warmup: int
) -> Iterator[float]:
    """Adam on new sequences in every update; the loss is that of the masked positions.

    Args:
        seed: of the sequences.
        batch: sequences per update.
        lr, warmup: learning rate, and the updates in which it rises. It is constant until it decays.

    Yields:
        The loss of each update.
    """
    device = model.left_neighbor.weight.device
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
    queries = task.queries.to(device)
    for update in range(updates):
        left = (updates - update) / (DECAYING_SHARE * updates)
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (update + 1) / warmup, left)
        tokens, targets = (x.to(device) for x in task.draw(batch, generator))
        loss = F.cross_entropy(model(tokens, queries).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def count_recalled(model: RecallModel, task: RecallTask, seed: int, sequences: int, batch: int) -> int:
    """How many of the sequences of a seed have the right value at their last query.

    The other queries are not counted: answers to one sequence are not independent trials.
    """
    device = model.left_neighbor.weight.device
    generator, last, recalled = torch.Generator().manual_seed(seed), task.queries[-1:].to(device), 0
    for first in range(0, sequences, batch):
        tokens, targets = task.draw(min(batch, sequences - first), generator)
        answers = model(tokens.to(device), last).argmax(-1).squeeze(1)
        recalled += int((answers.cpu() == targets[:, -1]).sum())
    return recalled
