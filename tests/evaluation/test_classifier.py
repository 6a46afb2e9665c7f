"""Classifiers of ``transformers``."""

import pytest
import transformers

from fairseq_linformer.evaluation.classifier import TransformersClassifier

from ..checkpoints.encoders import build_tokenizer


@pytest.mark.parametrize("family, n", [("bert", 20), ("roberta", 18), ("data2vec-text", 18)])
def test_truncates_to_the_positions_of_the_model(family, n, tmp_path):
    """Of 20 position embeddings, RoBERTa and data2vec do not use the first two."""
    tokenizer = build_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    config = transformers.AutoConfig.for_model(
        family, vocab_size=len(tokenizer), max_position_embeddings=20, type_vocab_size=2, **sizes
    )
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    classifier = TransformersClassifier(str(tmp_path))
    rows = classifier.encode([("low " * 30,)], truncated=True)
    assert classifier.max_positions == len(rows[0]["input_ids"]) == n
    assert classifier.logits(rows).isfinite().all()
