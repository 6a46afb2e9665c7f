"""Pairs of a query and its document, and hits, by hand."""

import torch

from fairseq_linformer.reproduction.beyond import retrieval


def test_pieces_do_not_cross_articles(smoke_inputs):
    (shard,) = (smoke_inputs / "text").glob("shard*")
    articles = list(retrieval._read_documents(shard))
    assert {len(article) for article in articles} == {22, 0} or all(len(article) >= 22 for article in articles)
    pairs = retrieval.read_pairs(shard, 5)
    joined = [query + document for query, document in pairs]
    whole = [article[start : start + 10] for article in articles for start in range(0, len(article) - 9, 10)]
    assert joined == whole and pairs and all(len(query) == 5 for query, _ in pairs)


def test_hit_rate_by_hand():
    queries = torch.eye(3)
    documents = torch.tensor([[1.0, 0, 0], [0.9, 0.1, 0], [0, 0.5, 0.2]])
    # The second query finds the third document first, its own next; the third query its own.
    assert retrieval.hit_rate(queries, documents, 1) == 2 / 3
    assert retrieval.hit_rate(queries, documents, 2) == 1.0
