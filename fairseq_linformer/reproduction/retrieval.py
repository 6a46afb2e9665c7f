"""Articles that have to be found by a paragraph that was removed from them.

A candidate is an article of at least n tokens. Its query is one of its paragraphs, which is removed from it; a third of
the queries each begin in the first p tokens, after them in the first 2 p, and farther. The article is read without the
paragraph, up to n tokens.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.documents import read_documents, split_paragraphs
from ..data.sources import locate_source, parse_source
from ..data.tokenizer import Tokenizer
from ..evaluation.predict import batch_by_length
from ..models.state_dicts import PADDING_IDX
from ..progress import progress_bar
from .document_models import NEAREST, Reader, cut_ids, truncate_ids

BEGIN, END = 0, 2
"""Token IDs of <s> and </s>."""
PLACES = ("first piece", "second piece", "farther")
"""Where a query was removed."""
SEED = 1
TOKENS = 4096
"""Tokens of a forward pass, at most."""


@dataclass(frozen=True)
class Candidate:
    """An article without the paragraph that is its query.

    Attributes:
        place: where the query was.
        query, text: the paragraph, and the paragraphs of the article that begin within n tokens.
        query_ids, ids: token IDs between <s> and </s>, at most p and n.
    """

    place: str
    query: str
    text: str
    query_ids: list[int]
    ids: list[int]


def choose_candidates(
    sources: Sequence[str], tokenizer: Tokenizer, number: int, n: int, piece: int, words: tuple[int, int]
) -> list[Candidate]:
    """The first articles that have a query where it is needed, with places in turn.

    Args:
        number: of candidates, a multiple of 3.
        words: the fewest and the most of a query.
    """
    found: list[Candidate] = []
    draw = random.Random(SEED)
    for text in (text for source in sources for text in read_documents(locate_source(parse_source(source)))):
        candidate = _make_candidate(text, tokenizer, n, piece, words, PLACES[len(found) % len(PLACES)], draw)
        if candidate is not None:
            found.append(candidate)
        if len(found) == number:
            return found
    raise ValueError(f"--source must have {number:,} articles of {n:,} tokens with a query, got {len(found):,}")


def _make_candidate(
    text: str, tokenizer: Tokenizer, n: int, piece: int, words: tuple[int, int], place: str, draw: random.Random
) -> Candidate | None:
    paragraphs = split_paragraphs(text)
    ids = _encode(tokenizer, paragraphs)
    starts = np.cumsum([0, *map(len, ids)])
    bounds = (0, piece, 2 * piece, n)
    first, last = bounds[PLACES.index(place)], bounds[PLACES.index(place) + 1]
    usable = [
        i
        for i in range(1, len(paragraphs))  # the first is the title
        if first <= starts[i] < last and words[0] <= len(paragraphs[i].split()) <= words[1]
    ]
    if not usable:
        return None
    chosen = draw.choice(usable)
    query, query_ids = paragraphs.pop(chosen), ids.pop(chosen)
    rest = list(chain.from_iterable(ids))
    if len(rest) < n - 2:
        return None
    read = [paragraph for paragraph, start in zip(paragraphs, np.cumsum([0, *map(len, ids)])) if start < n - 2]
    return Candidate(place, query, " ".join(read), [BEGIN, *query_ids[: piece - 2], END], [BEGIN, *rest[: n - 2], END])


def _encode(tokenizer: Tokenizer, paragraphs: Sequence[str]) -> list[list[int]]:
    """The token IDs of each paragraph, without </s>."""
    ids, sizes = tokenizer.encode(paragraphs)
    return [each[:-1].tolist() for each in np.split(ids, np.cumsum(sizes)[:-1])]


def find_by_reader(encoder: Any, model: Any, reader: Reader, candidates: Sequence[Candidate]) -> np.ndarray:
    """(candidates,) the rank of each query's article, 0 if it is the nearest, by the cosine of mean-pooled features.

    Args:
        encoder: reads the queries.
        model: reads the articles as ``reader`` does.
    """
    owners, inputs = [], []
    for i, candidate in enumerate(candidates):
        pieces = cut_ids(candidate.ids, reader) if reader.cuts else [truncate_ids(candidate.ids, reader)]
        owners += [i] * len(pieces)
        inputs += pieces
    queries = embed(encoder, [candidate.query_ids for candidate in candidates])
    vectors, owner = embed(model, inputs), torch.tensor(owners)
    if reader.reading == NEAREST:
        scores = torch.full((len(candidates), len(candidates)), -1.0)
        scores = scores.index_reduce(1, owner, queries @ vectors.T, "amax")
    else:
        means = torch.zeros(len(candidates), vectors.size(1)).index_add(0, owner, vectors)
        scores = queries @ F.normalize(means, dim=1).T
    return ranks(scores.numpy())


def find_by_words(candidates: Sequence[Candidate]) -> np.ndarray:
    """(candidates,) the rank of each query's article by the cosine of tf-idf vectors of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True)
    documents = vectorizer.fit_transform([candidate.text for candidate in candidates])
    return ranks((vectorizer.transform([candidate.query for candidate in candidates]) @ documents.T).toarray())


def ranks(scores: np.ndarray) -> np.ndarray:
    """(m,) how many documents have a higher score than that of the same row, for scores (m, m) of queries by row."""
    return (scores > scores.diagonal()[:, None]).sum(1)


@torch.inference_mode()
def embed(model: Any, inputs: Sequence[Sequence[int]]) -> Tensor:
    """(inputs, d) mean-pooled features, normalized."""
    vectors: list[Tensor] = [torch.empty(0)] * len(inputs)
    with progress_bar("embedding", len(inputs), "text") as progress:
        for batch in batch_by_length([len(each) for each in inputs], TOKENS):
            rows = [torch.tensor(inputs[i]) for i in batch]
            tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING_IDX)
            mask = tokens.ne(PADDING_IDX).unsqueeze(-1)
            means = (model(tokens, features_only=True)[0] * mask).sum(1) / mask.sum(1)
            for i, vector in zip(batch, F.normalize(means, dim=1)):
                vectors[i] = vector
            progress.update(len(batch))
    return torch.stack(vectors)
