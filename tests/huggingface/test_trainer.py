"""Training with ``Trainer``: the loss decreases, E learns, and the saved model is imported into fairseq."""

import multiprocessing
import shutil

import pytest
import torch
from torch.distributed.fsdp import fully_shard
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
from fairseq_linformer.huggingface import (
    LinformerForMaskedLM,
    LinformerForQuestionAnswering,
    LinformerForSequenceClassification,
    LinformerForTokenClassification,
)
from fairseq_linformer.models.dictionaries import read_masked_lm_dictionary
from fairseq_linformer.models.state_dicts import EMBEDDINGS

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


def test_a_regression_that_became_a_classifier_is_imported(masked_lm_folder, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(masked_lm_folder, id2label={0: "cat", 1: "dog"})
    score = {"_name": "sentence_prediction", "regression_target": True}
    cfg = model.config.fairseq["cfg"] | {"task": {**score, "num_classes": 1}, "criterion": score}
    model.config.fairseq, model.config.problem_type = {"cfg": cfg}, "single_label_classification"
    model.save_pretrained(tmp_path / "saved")
    convert(tmp_path / "saved", tmp_path / "back", dictionary=masked_lm_folder / "dict.txt")
    assert FairseqClassifier(tmp_path / "back/model.pt").names == ["cat", "dog"]
    assert not fairseq_commands.load(tmp_path / "back", "model.pt")["cfg"]["criterion"]["regression_target"]
    for kind, message in (
        ("multi_label_classification", "problem_type in config.json must not be multi_label_classification"),
        ("regression", "a regression in config.json must have one label"),
    ):
        model.config.problem_type = kind
        model.save_pretrained(tmp_path / kind)
        with pytest.raises(ValueError, match=message):
            convert(tmp_path / kind, tmp_path / "none")


@pytest.mark.parametrize("multiple", [None, 64])
def test_tokens_that_were_added_keep_their_embeddings(multiple, masked_lm_folder, tmp_path):
    """<mask> is the last token of a dictionary of fairseq, and in a saved folder before those that were added. Spare
    embeddings are left out."""
    tokenizer = AutoTokenizer.from_pretrained(masked_lm_folder, trust_remote_code=True)
    model = AutoModelForMaskedLM.from_pretrained(masked_lm_folder)
    tokenizer.add_tokens(["covid", "lockdown"])
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=multiple)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "saved")
    convert(tmp_path / "saved", tmp_path / "back")
    symbols = read_masked_lm_dictionary(tmp_path / "back/dict.txt").symbols
    embeddings = fairseq_commands.load(tmp_path / "back", "model.pt")["model"][EMBEDDINGS]
    own = tokenizer.convert_tokens_to_ids(symbols)
    assert own[-3:] == [len(tokenizer) - 2, len(tokenizer) - 1, len(tokenizer) - 3]
    assert embeddings.equal(model.get_input_embeddings().weight[own])
    if multiple is None:
        with pytest.raises(ValueError, match="tokenizer.json has tokens after <mask>, which dict.txt cannot have"):
            convert(tmp_path / "saved", tmp_path / "again", dictionary=tmp_path / "back/dict.txt")


def test_checkpointing_recomputes_layers_while_it_is_enabled():
    model, calls = LinformerForMaskedLM(small()).train(), []
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
        assert (model.is_activation_checkpointing, encoder.config.offload_activations) == (is_enabled, offloads)
        assert model.is_gradient_checkpointing == is_enabled
        calls.clear()
        model(torch.tensor([[0, 5, 6, 7, 2]]))[0].sum().backward()
        assert len(calls) == (4 if is_enabled else 2)


HEADS = {
    LinformerForMaskedLM: lambda rows: {"labels": torch.where(torch.rand(rows, 5) < 0.4, 7, -100)},
    LinformerForTokenClassification: lambda rows: {"labels": torch.where(torch.rand(rows, 5) < 0.4, 1, -100)},
    LinformerForSequenceClassification: lambda rows: {"labels": torch.arange(rows) % 2},
    "regression": lambda rows: {"labels": torch.rand(rows, 2)},
    LinformerForQuestionAnswering: lambda rows: {
        "start_positions": torch.arange(rows) % 4,
        "end_positions": torch.arange(rows) % 5,
    },
}


@pytest.mark.parametrize("head", HEADS)
def test_losses_of_parts_of_a_batch_add_up_to_that_of_the_batch(head):
    """As with gradient accumulation: parts with more labels count for more."""
    torch.manual_seed(0)
    model_class = head if isinstance(head, type) else LinformerForSequenceClassification
    model = model_class(small(num_labels=2, problem_type=None if isinstance(head, type) else head)).eval()
    tokens, labels = torch.randint(4, 20, (6, 5)), HEADS[head](6)
    labels = {name: each.clone() for name, each in labels.items()}
    if "labels" in labels and not labels["labels"].is_floating_point():
        labels["labels"][0] = -100  # a part without a label
    first = next(iter(labels.values()))
    count = first.ne(-100).sum()
    whole = model(tokens, **labels).loss
    parts = [
        model(tokens[i], num_items_in_batch=count, **{name: each[i] for name, each in labels.items()}).loss
        for i in (slice(0, 1), slice(1, 3), slice(3, 6))
    ]
    torch.testing.assert_close(sum(parts), whole)


def test_the_number_of_labels_in_an_update_is_passed_to_the_model(tmp_path):
    """So that with gradient accumulation every masked token counts alike."""
    assert Trainer(LinformerForMaskedLM(small()), TrainingArguments(str(tmp_path))).model_accepts_loss_kwargs


def test_the_padding_of_the_tokenizer_is_that_of_the_model():
    """``Trainer`` changes the configuration, which also tells the sizes of the weights."""
    model = LinformerForMaskedLM(small())
    model.config.pad_token_id = 0
    with pytest.raises(ValueError, match="pad_token_id must be 1, with which the model was built, got 0"):
        model(torch.tensor([[5, 6]]))


def test_saved_configurations_have_no_options_of_a_run(tmp_path):
    small(checkpoint_activations=True, offload_activations=True).save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    assert "checkpoint_activations" not in text and "offload_activations" not in text


def shard(path, rank):
    """The loss of two updates, on this rank's half of the batch, with each layer and the rest sharded over two ranks;
    or on the whole batch, without rank."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = LinformerForMaskedLM(small(sharing="layerwise", dropout=0.0, attention_dropout=0.0)).train()
    if rank is not None:
        torch.distributed.init_process_group("gloo", init_method=f"file://{path}/init", rank=rank, world_size=2)
        (name,) = model._no_split_modules
        for module in [each for each in model.modules() if type(each).__name__ == name]:
            fully_shard(module)
        fully_shard(model)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    tokens = torch.randint(4, 20, (4, 6), generator=torch.Generator().manual_seed(1))
    own = tokens if rank is None else tokens[2 * rank : 2 * rank + 2]
    for _ in range(2):
        loss = model(own, labels=own).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    torch.save(losses, path / f"{rank}.pt")


@pytest.mark.slow
def test_two_sharded_ranks_have_the_loss_of_one(tmp_path):
    shard(tmp_path, None)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=shard, args=(tmp_path, rank)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    one, *two = (torch.tensor(torch.load(tmp_path / f"{name}.pt")) for name in ("None", 0, 1))
    torch.testing.assert_close(torch.stack(two).mean(0), one, rtol=0, atol=1e-5)
    assert one[1] < one[0]


def test_a_sequence_cannot_be_sharded():
    assert not LinformerForMaskedLM(small()).supports_context_parallel
