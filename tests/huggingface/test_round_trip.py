"""Export to transformers and import back: weights are bit-identical."""

import json
import re
import shutil

import pytest
import torch
from huggingface_hub import ModelCard, constants
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.checkpoints.exported_folder import read_exported_checkpoint
from fairseq_linformer.checkpoints.model_card import write_card
from fairseq_linformer.checkpoints.transformers_loading import load_config
from fairseq_linformer.huggingface import LinformerPreTrainedConfig
from fairseq_linformer.modules.projection import learned_projections

from .. import fairseq_commands
from ..checkpoint_fixtures import hub
from .test_parity import small


def same_bits(folder, source, name="model.pt"):
    ours, theirs = fairseq_commands.load(folder, name)["model"], fairseq_commands.load(source)["model"]
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype and ours[key].equal(value), key


@pytest.mark.slow
def test_half_precision_and_shards(train_checkpoint, tmp_path):
    """``test_parity.py`` has each variant as it is exported."""
    source = train_checkpoint("--sharing", "layerwise", "--encoder-normalize-before", "--untie-weights-roberta")
    checkpoint = fairseq_commands.load(source)
    checkpoint["model"] = {k: v.half() if v.is_floating_point() else v for k, v in checkpoint["model"].items()}
    (tmp_path / "half").mkdir()
    torch.save(checkpoint, tmp_path / "half" / "checkpoint_last.pt")
    export_checkpoint(tmp_path / "half" / "checkpoint_last.pt", tmp_path / "hf", tokenizer=False)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", dtype=torch.float16)
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    model.save_pretrained(tmp_path / "saved", max_shard_size="4KB")
    assert len(list((tmp_path / "saved").glob("*.safetensors"))) > 1
    for folder in ("hf", "saved"):
        convert(tmp_path / folder, tmp_path / f"{folder}-back")
        same_bits(tmp_path / f"{folder}-back", tmp_path / "half")
    # By default not in half precision, which would be that of Trainer's steps, too.
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf")
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--projection", "mean-pool"), ("--sharing", "none", "--projected-dim", "5/8")])
def test_version_02(options, train_checkpoint, mlm_data, tmp_path):
    """Checkpoints of version 0.2 lack ``window_options``, which are then all off; pools also lack ``windows``."""
    checkpoint = fairseq_commands.load(train_checkpoint(*options))
    new, checkpoint["model"] = checkpoint["model"], {}
    for key, value in new.items():  # pools had a buffer with their name instead
        is_new = key.endswith((".window_options", ".windows") if "mean-pool" in options else ".window_options")
        if not is_new:
            checkpoint["model"][key] = value
        elif "mean-pool" in options:
            checkpoint["model"][re.sub(r"windows|window_options", "mean_pool", key)] = torch.empty(8, 0)
    (tmp_path / "old").mkdir()
    torch.save(checkpoint, tmp_path / "old" / "checkpoint_last.pt")
    export_checkpoint(tmp_path / "old" / "checkpoint_last.pt", tmp_path / "hf", tokenizer=False)
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    stored = {key: weights.pop(key).tolist() for key in list(weights) if key.endswith(".window_options")}
    assert stored and set(map(tuple, stored.values())) == {(0, 0, 0)}
    if "mean-pool" in options:
        weights = {key: value for key, value in weights.items() if not key.endswith(".windows")}
        weights |= {key.replace("window_options", "mean_pool"): torch.empty(8, 0) for key in stored}
    save_file(weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    convert(tmp_path / "hf", tmp_path / "back")
    tokens = torch.tensor([0, 5, 6, 2])
    model, report = AutoModel.from_pretrained(tmp_path / "hf", output_loading_info=True)
    expected = hub(tmp_path / "old", mlm_data, bpe="characters").extract_features(tokens)
    torch.testing.assert_close(model(tokens.unsqueeze(0)).last_hidden_state, expected, rtol=0, atol=1e-5)
    assert not report["missing_keys"]
    again = hub(tmp_path / "back", mlm_data, bpe="characters", name="model.pt").extract_features(tokens)
    assert again.equal(hub(tmp_path / "old", mlm_data, bpe="characters").extract_features(tokens))


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["none", "layerwise"])
def test_old_projections(sharing, train_checkpoint, mlm_data, tmp_path):
    """Before version 0.3, E = start + scale * (weight - start) was stored."""
    checkpoint = fairseq_commands.load(train_checkpoint("--sharing", sharing, "--projection-lr-scale", "0.25"))
    (tmp_path / "new").mkdir()
    torch.save(checkpoint, tmp_path / "new" / "checkpoint_last.pt")
    tokens = torch.tensor([[0, 5, 6, 2]])
    expected = hub(tmp_path / "new", mlm_data, bpe="characters").extract_features(tokens)
    old = dict(checkpoint["model"])
    for key in [key for key in old if key.endswith(".delta")]:
        delta, start = old.pop(key), old[key.replace("delta", "start")]
        assert delta.abs().max() > 0
        old[key.replace("delta", "weight")] = start + delta
    assert old.keys() != checkpoint["model"].keys()
    (tmp_path / "old").mkdir()
    torch.save({**checkpoint, "model": old}, tmp_path / "old" / "checkpoint_last.pt")
    loaded = hub(tmp_path / "old", mlm_data, bpe="characters").extract_features(tokens)
    torch.testing.assert_close(loaded, expected, rtol=0, atol=1e-6)

    export_checkpoint(tmp_path / "new" / "checkpoint_last.pt", tmp_path / "hf", tokenizer=False)
    weights = {
        key: value for key, value in load_file(tmp_path / "hf" / "model.safetensors").items() if ".delta" not in key
    }
    matrices = {key: value for key, value in old.items() if re.search(r"\.[EF]\.weight", key)}
    weights |= {key.replace("encoder.sentence_encoder", "linformer.encoder"): matrices[key] for key in matrices}
    save_file(weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="hf was exported by an earlier version; run `fairseq-linformer convert`"):
        AutoModelForMaskedLM.from_pretrained(tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "back")
    again = hub(tmp_path / "back", mlm_data, bpe="characters", name="model.pt").extract_features(tokens)
    torch.testing.assert_close(again, expected, rtol=0, atol=1e-6)


def test_classes_columns_and_license_need_no_dictionary(classifier_folder, tmp_path):
    (tmp_path / "bare").mkdir()
    shutil.copyfile(classifier_folder / "model.safetensors", tmp_path / "bare/model.safetensors")
    known = {"columns": {"text_columns": ["body"], "label_column": "stars"}, "license": "mit"}
    config = json.loads((classifier_folder / "config.json").read_text())
    config["fairseq"] |= known
    (tmp_path / "bare/config.json").write_text(json.dumps(config))
    convert(tmp_path / "bare", tmp_path / "back")
    convert(tmp_path / "back/model.pt", tmp_path / "longer", max_positions=32)
    assert not (tmp_path / "longer/dict.txt").exists()
    export_checkpoint(tmp_path / "longer/model.pt", tmp_path / "again", tokenizer=False)
    again = load_config(str(tmp_path / "again"))
    assert again.id2label == {0: "animal: cat", 1: "dog"} and again.fairseq.items() >= known.items()
    assert ModelCard.load(tmp_path / "again/README.md").data.license == "mit"


def test_files_of_an_exported_model_on_the_hub(masked_lm_folder, tmp_path, monkeypatch):
    """Dictionary and sentencepiece model are those of the folder that was uploaded."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    shutil.copytree(masked_lm_folder, tmp_path / "models--me--model/snapshots/abc")
    (tmp_path / "models--me--model/refs").mkdir()
    (tmp_path / "models--me--model/refs/main").write_text("abc")
    config = load_config(str(masked_lm_folder))
    (_, files), (_, expected) = (read_exported_checkpoint(name, config) for name in ("me/model", str(masked_lm_folder)))
    assert files == expected and {"dict.txt", "sentencepiece.bpe.model"} <= {*files}


def test_one_of_several_heads(classifier, tmp_path):
    checkpoint = fairseq_commands.load(classifier)
    for key in [key for key in checkpoint["model"] if key.startswith("classification_heads.animal.")]:
        value = checkpoint["model"][key]
        rows = value[:1] if ".out_proj." in key else value  # a head of one output
        checkpoint["model"][key.replace("animal", "size")] = rows + 1
    (tmp_path / "two").mkdir()
    torch.save(checkpoint, tmp_path / "two" / "checkpoint_last.pt")
    path = tmp_path / "two" / "checkpoint_last.pt"
    with pytest.raises(ValueError, match="--head from animal, size"):
        export_checkpoint(path, tmp_path / "no", tokenizer=False)
    with pytest.raises(ValueError, match="head 'colour'.*animal, size"):
        export_checkpoint(path, tmp_path / "no", head="colour", tokenizer=False)
    for head, classes in (("size", 1), ("animal", 2)):
        export_checkpoint(path, tmp_path / head, head=head)
        assert (tmp_path / head / "tokenizer.json").is_file()  # that of the data
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / head)
        assert model.classifier.out_proj.weight.equal(
            checkpoint["model"][f"classification_heads.{head}.out_proj.weight"]
        )
        labels = {0: "LABEL_0"} if classes == 1 else {0: "animal: cat", 1: "dog"}  # those of the data
        assert model.config.id2label == labels
        convert(tmp_path / head, tmp_path / f"{head}-back")
        same_bits(tmp_path / f"{head}-back", tmp_path / "two")


def test_round_trip_of_a_classifier(classifier, classifier_folder, tmp_path):
    """Its weights, labels and predictions in fairseq, and the card and configuration of another export."""
    # No file mentions this machine.
    for path in classifier_folder.iterdir():
        if path.suffix in (".json", ".md"):
            assert not re.search(r'"/|/tmp|pytest-of', path.read_text()), path
    back, again = tmp_path / "back", tmp_path / "again"
    convert(classifier_folder, back)
    same_bits(back, classifier)
    ours, theirs = hub(back, back, name="model.pt"), hub(classifier, back)
    tokens = torch.tensor([0, 5, 6, 2])
    assert ours.task.label_dictionary.string([4]) == "animal: cat"
    torch.testing.assert_close(ours.predict("animal", tokens), theirs.predict("animal", tokens), rtol=0, atol=0)
    export_checkpoint(back / "model.pt", again)
    assert (again / "README.md").read_text() == (classifier_folder / "README.md").read_text()
    config, expected = (json.loads((folder / "config.json").read_text()) for folder in (again, classifier_folder))
    assert config == expected


def test_card_of_a_distilled_and_finetuned_model(tmp_path):
    """Origin, license and scores, for readers and as metadata."""
    scores = {"matthews": {"value": 0.892, "interval": [0.87, 0.911]}}
    finetuned = {"task": "sst-2", "data": "64,349 rows of train", "commit": "9e0324f"}
    finetuned["splits"] = {"valid": {"rows": 872, "scores": scores}}
    imported = {"name": "base", "hub": "a/base", "license": "mit", "sha256": "0" * 64, "lm_head": "new, untrained"}
    details = {"imported": imported, "distilled": {"variance_after": [0.99, 0.93]}, "finetuned": finetuned}
    details["license"] = "apache-2.0"
    config = small(fairseq=details, architectures=["LinformerForSequenceClassification"])
    write_card(tmp_path, config, {"max_positions": 8, "int8": True, "pooling": None})
    card = (tmp_path / "README.md").read_text()
    for text in (
        "| sst-2 valid, matthews | 0.8920 (0.8700 to 0.9110), 872 rows |",
        "| explained variance of the Transformer's last layer | 0.930 |",
        "| weights of the graph | int8",
        "The weights come from a/base (SHA-256 000",
        "sentences of up to 8 tokens",
    ):
        assert text in card
    data = ModelCard(card).data
    assert (data.license, data.base_model, data.library_name) == ("apache-2.0", "a/base", "onnx")
    assert (data.base_model_relation, data.language, data.datasets) == ("quantized", "en", ["nyu-mll/glue"])
    (result,) = data.eval_results
    assert (result.dataset_type, result.dataset_config, result.dataset_split) == ("nyu-mll/glue", "sst2", "validation")
    assert (result.dataset_name, result.metric_type) == ("sst-2", "matthews_correlation")
    assert result.metric_value == 0.892
    # Features are not what was scored.
    config.architectures = ["LinformerModel"]
    del config.fairseq["license"]
    write_card(tmp_path, config, {"max_positions": 8, "int8": False, "pooling": "mean"})
    card = (tmp_path / "README.md").read_text()
    assert ModelCard(card).data.license == "mit" and ModelCard(card).data.base_model_relation == "finetune"
    assert "(sentences, width)" in card and "matthews" not in card
    assert ModelCard(card).data.pipeline_tag == "feature-extraction"


def test_changes_in_transformers_are_imported(masked_lm_folder, tmp_path):
    """Also options of the model, not only weights."""
    changed = dict(activation_fn="relu", hidden_dropout_prob=0.5, freeze_projections=True, pooler_activation_fn="gelu")
    model = AutoModelForMaskedLM.from_pretrained(masked_lm_folder, trust_remote_code=True, **changed)
    model.save_pretrained(tmp_path / "changed")
    (tmp_path / "changed" / "dict.txt").write_bytes((masked_lm_folder / "dict.txt").read_bytes())
    convert(tmp_path / "changed", tmp_path / "back")
    options = torch.load(tmp_path / "back" / "model.pt", weights_only=True)["cfg"]["model"]
    assert (options["activation_fn"], options["dropout"], options["freeze_projections"]) == ("relu", 0.5, True)
    assert options["pooler_activation_fn"] == "gelu"
    theirs = hub(tmp_path / "back", tmp_path / "back", bpe="characters", name="model.pt")
    tokens = torch.tensor([[0, 5, 6, 7, 2]])
    with torch.no_grad():
        torch.testing.assert_close(theirs.model(tokens)[0], model.eval()(tokens).logits, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "before, changed, scale",
    [
        (["--projection-lr-scale", "0.25"], {"freeze_projections": True, "projection_lr_scale": None}, 1),
        (["--freeze-projections"], {"freeze_projections": False, "projection_lr_scale": 0.25}, 0.25),
    ],
)
def test_learning_rate_of_E_can_be_changed(before, changed, scale, train_checkpoint, tmp_path):
    """Changing the learning rate of a loaded E, or freezing it, keeps E."""
    source = train_checkpoint(*before, "--projection-init", "average")
    export_checkpoint(source / "checkpoint_last.pt", tmp_path / "hf", tokenizer=False)
    tokens = torch.tensor([[0, 5, 6, 7, 9, 2]])
    unchanged = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    config = LinformerPreTrainedConfig.from_pretrained(tmp_path / "hf", **changed)
    for options in (changed, {"config": config}):
        model = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", **options).eval()
        is_frozen = changed["projection_lr_scale"] is None
        for E in learned_projections(model):
            assert (float(E.scale), E.delta.requires_grad) == (scale, not is_frozen) and torch.equal(E(), E.start)
        with torch.no_grad():
            torch.testing.assert_close(model(tokens).logits, unchanged(tokens).logits, rtol=0, atol=1e-5)
    assert config.freeze_projections == changed.get("freeze_projections", False)  # the arguments are not modified
