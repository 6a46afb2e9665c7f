"""Training with ``Trainer``: the loss decreases, E learns, and the saved model is imported into fairseq."""

import shutil

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

pytest.importorskip("accelerate")

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.evaluation.fairseq_classifier import FairseqClassifier
from fairseq_linformer.huggingface import LinformerForMaskedLM, LinformerForSequenceClassification, LinformerModel

from .. import fairseq_commands
from ..checkpoint_fixtures import TEXT
from .test_parity import small


def train(model, tokenizer, rows, collator, folder, steps=25, **options) -> list:
    """Losses of a run, one per step."""
    arguments = TrainingArguments(
        str(folder),
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=5e-3,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        **options,
    )
    trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collator, processing_class=tokenizer)
    trainer.train()
    trainer.save_model(str(folder / "saved"))
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
def test_masked_lm(masked_lm, masked_lm_folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(masked_lm_folder, trust_remote_code=True)
    rows = [tokenizer(text, truncation=True) for text in TEXT * 10]
    model = AutoModelForMaskedLM.from_pretrained(masked_lm_folder)
    losses = train(model, tokenizer, rows, DataCollatorForLanguageModeling(tokenizer, seed=1), tmp_path)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    # The saved folder has the code of the classes, and of a fast tokenizer one file.
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"modeling_linformer.py", "projection.py", "tokenizer.json"} <= names and "dict.txt" not in names
    dictionary = shutil.copy(masked_lm_folder / "dict.txt", tmp_path)  # with no tokenizer next to it
    convert(tmp_path / "saved", tmp_path / "model", dictionary=dictionary)
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.pt", "dict.txt"}
    convert(tmp_path / "saved", tmp_path / "back", dictionary=masked_lm_folder / "dict.txt")
    assert {path.name for path in (tmp_path / "back").iterdir()} == {"model.pt", "dict.txt", "sentencepiece.bpe.model"}
    before, after = (
        fairseq_commands.load(masked_lm)["model"],
        fairseq_commands.load(tmp_path / "back", "model.pt")["model"],
    )
    assert before.keys() == after.keys()
    for key, value in model.state_dict().items():
        if key.startswith("linformer.encoder."):
            assert after[key.replace("linformer.encoder.", "encoder.sentence_encoder.")].equal(value)
    for name in ("E.delta", "F.delta", "q_proj.weight"):
        key = f"encoder.sentence_encoder.layers.0.self_attn.{name}"
        assert not after[key].equal(before[key])
    assert (tmp_path / "back" / "sentencepiece.bpe.model").is_file()


@pytest.mark.parametrize("labels", [{0: "cat", 1: "dog", 2: "mat"}, {0: "score"}])
def test_a_classifier_on_an_exported_masked_lm_is_imported(masked_lm_folder, tmp_path, labels):
    """As ``Trainer`` saves it: with the names of its classes, or as a regression."""
    model = AutoModelForSequenceClassification.from_pretrained(masked_lm_folder, id2label=labels)
    model.save_pretrained(tmp_path / "saved")
    convert(tmp_path / "saved", tmp_path / "back", dictionary=masked_lm_folder / "dict.txt")
    classifier = FairseqClassifier(tmp_path / "back" / "model.pt")
    assert classifier.is_score == (len(labels) == 1) and classifier.names == list(labels.values()) * (len(labels) > 1)
    tokens = torch.tensor([[0, 5, 6, 7, 2]])
    expected = model.eval()(tokens).logits
    torch.testing.assert_close(classifier.logits([{"input_ids": tokens[0].tolist()}]), expected)


@pytest.mark.parametrize("model_class", [LinformerModel, LinformerForMaskedLM, LinformerForSequenceClassification])
def test_checkpointing_recomputes_layers_while_it_is_enabled(model_class):
    model, calls = model_class(small()).train(), []
    encoder = model.base_model.encoder
    for layer in encoder.layers:
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
    enable, disable = model.gradient_checkpointing_enable, model.gradient_checkpointing_disable
    for change, is_enabled, offloads in (
        (disable, False, False),
        (enable, True, False),
        (lambda: enable({"use_reentrant": False}, offload=True), True, True),
        (enable, True, False),
        (lambda: enable(offload=True), True, True),
        (disable, False, False),
    ):
        change()
        assert (model.is_gradient_checkpointing, encoder.config.offload_activations) == (is_enabled, offloads)
        calls.clear()
        model(torch.tensor([[0, 5, 6, 7, 2]]))[0].sum().backward()
        assert len(calls) == (4 if is_enabled else 2)
