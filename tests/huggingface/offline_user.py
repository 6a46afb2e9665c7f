"""Uses an exported folder without fairseq and this package. ``test_offline.py`` runs it.

Usage:

    python offline_user.py MASKED_LM_FOLDER CLASSIFIER_FOLDER EXPECTED.pt SAVED
"""

import sys

sys.modules["fairseq"] = sys.modules["fairseq_linformer"] = None  # importing them fails

import torch  # noqa: E402
from transformers import (  # noqa: E402
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

CLOSE = dict(rtol=0, atol=1e-5)
TRUST = dict(trust_remote_code=True)


def check(masked_lm: str, classifier: str, expected: dict) -> None:
    tokenizer = AutoTokenizer.from_pretrained(masked_lm, **TRUST)
    batch = tokenizer(expected["texts"], padding=True, return_tensors="pt")
    real = batch["attention_mask"].bool()
    assert batch["input_ids"].equal(expected["tokens"])
    with torch.no_grad():
        features = AutoModel.from_pretrained(masked_lm, **TRUST).eval()(**batch).last_hidden_state
        torch.testing.assert_close(features[real], expected["features"][real], **CLOSE)
        logits = AutoModelForMaskedLM.from_pretrained(masked_lm, **TRUST).eval()(**batch).logits
        torch.testing.assert_close(logits[real], expected["logits"][real], **CLOSE)
        model = AutoModelForSequenceClassification.from_pretrained(classifier, **TRUST).eval()
        torch.testing.assert_close(model(**batch).logits, expected["classes"], **CLOSE)

    filled = pipeline("fill-mask", masked_lm, top_k=len(expected["filled"]), **TRUST)(expected["masked"])
    for ours, (score, token) in zip(filled, expected["filled"], strict=True):
        assert abs(ours["score"] - score) < 1e-5 and ours["token_str"] == token, (ours, score, token)

    classify = pipeline("text-classification", classifier, top_k=None, **TRUST)
    for text, probabilities in zip(expected["texts"], expected["classes"].softmax(-1).tolist()):
        scores = {item["label"]: item["score"] for item in classify([text])[0]}
        for label, probability in zip(expected["labels"], probabilities):
            assert abs(scores[label] - probability) < 1e-5, (scores, probabilities)
    tags, answers = (
        auto.from_pretrained(masked_lm, **TRUST).eval()
        for auto in (AutoModelForTokenClassification, AutoModelForQuestionAnswering)
    )
    assert answers(**batch).start_logits.shape == batch["input_ids"].shape
    tag = pipeline("token-classification", tags, tokenizer=tokenizer)
    assert len(tag("the cat sat")) == len(tokenizer("the cat sat", add_special_tokens=False)["input_ids"])
    # Longer than n: truncated by the pipeline's tokenizer, as usual in transformers.
    assert classify("the cat " * 50, truncation=True)


if __name__ == "__main__":
    masked_lm, classifier, path, saved = sys.argv[1:]
    expected = torch.load(path)
    check(masked_lm, classifier, expected)
    # A saved copy works too, including its code.
    AutoModelForMaskedLM.from_pretrained(masked_lm, **TRUST).save_pretrained(f"{saved}/mlm")
    AutoTokenizer.from_pretrained(masked_lm, **TRUST).save_pretrained(f"{saved}/mlm")
    AutoModelForSequenceClassification.from_pretrained(classifier, **TRUST).save_pretrained(f"{saved}/cls")
    AutoTokenizer.from_pretrained(classifier, **TRUST).save_pretrained(f"{saved}/cls")
    check(f"{saved}/mlm", f"{saved}/cls", expected)
    print("as expected")
