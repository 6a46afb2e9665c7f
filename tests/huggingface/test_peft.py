"""Adapters of ``peft``: trained, saved, loaded and merged."""

import pytest
import torch

from fairseq_linformer.huggingface import LinformerForSequenceClassification

from .test_parity import small

peft = pytest.importorskip("peft")

TOKENS = torch.randint(4, 20, (8, 12), generator=torch.Generator().manual_seed(0))
TOKENS[::2, 9:] = 1  # padding
LABELS = (TOKENS[:, 1] > 11).long()


def build(tmp_path, **options):
    """A classifier, and the folder that it is saved in."""
    torch.manual_seed(0)
    config = small(num_labels=2, dropout=0.0, attention_dropout=0.0, **options)
    LinformerForSequenceClassification(config).save_pretrained(tmp_path / "base")
    return LinformerForSequenceClassification.from_pretrained(tmp_path / "base")


def adapt(model, targets, **options):
    return peft.get_peft_model(model, peft.LoraConfig("SEQ_CLS", r=4, target_modules=targets, **options))


def train(model) -> list[float]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer, losses = torch.optim.Adam(trained, lr=0.02), []
    for _ in range(20):
        loss = model(TOKENS, labels=LABELS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def logits_of(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits


@pytest.mark.parametrize("window", [0, 2])
def test_lora_on_queries_and_values(window, tmp_path):
    base = build(tmp_path, local_window=window)
    start, names = logits_of(base), base.state_dict().keys()
    model = adapt(base, ["q_proj", "v_proj"])
    adapted = {name.split(".")[-4] for name, each in model.named_parameters() if "lora_" in name and each.requires_grad}
    assert adapted == {"q_proj", "v_proj"}
    losses = train(model.train())
    trained = logits_of(model)
    assert losses[-1] < losses[0] / 2 and not torch.allclose(trained, start, atol=0.1)
    model.save_pretrained(tmp_path / "adapter")

    again = LinformerForSequenceClassification.from_pretrained(tmp_path / "base")
    again = peft.PeftModel.from_pretrained(again, tmp_path / "adapter")
    torch.testing.assert_close(logits_of(again), trained, rtol=0, atol=1e-6)
    merged = again.merge_and_unload()
    torch.testing.assert_close(logits_of(merged), trained, rtol=0, atol=1e-5)
    merged.save_pretrained(tmp_path / "merged")
    merged = LinformerForSequenceClassification.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(logits_of(merged), trained, rtol=0, atol=1e-5)
    assert merged.state_dict().keys() == names


def test_all_linear_layers_are_adapted_and_projections_frozen(tmp_path):
    base = build(tmp_path)
    linear = {name for name, each in base.named_modules() if isinstance(each, torch.nn.Linear)}
    model = adapt(base, "all-linear")
    adapted = {name for name, each in model.named_modules() if hasattr(each, "lora_A")}
    others = {name for name in linear if name == "lm_head" or name.startswith("classifier.")}
    assert len(others) == 3 and adapted == {f"base_model.model.{name}" for name in linear - others}
    projections = {name: each for name, each in model.named_parameters() if ".E." in name or ".F." in name}
    assert projections and not any(each.requires_grad for each in projections.values())


@pytest.mark.parametrize("options", [{}, {"sharing": "none", "projection_init": "normal"}])
def test_projections_are_trained_if_they_are_saved(options, tmp_path):
    model = adapt(build(tmp_path, **options), ["q_proj", "v_proj"], modules_to_save=["classifier", "E", "F"])
    before = {name: each.clone() for name, each in model.named_parameters() if each.requires_grad and "delta" in name}
    assert before
    train(model.train())
    trained = logits_of(model)
    parameters = dict(model.named_parameters())
    assert all(not parameters[name].equal(each) for name, each in before.items())
    model.save_pretrained(tmp_path / "adapter")
    again = LinformerForSequenceClassification.from_pretrained(tmp_path / "base")
    again = peft.PeftModel.from_pretrained(again, tmp_path / "adapter").merge_and_unload()
    torch.testing.assert_close(logits_of(again), trained, rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"local_window": 2}, {"sharing": "headwise", "max_positions": 12}])
def test_sentences_of_a_batch_with_adapters_of_their_own(options, tmp_path):
    first, second = (
        peft.LoraConfig(r=4, lora_alpha=400, target_modules=targets, init_lora_weights=False)
        for targets in (["q_proj", "k_proj", "v_proj"], ["k_proj"])
    )
    model = peft.get_peft_model(build(tmp_path, **options), first)
    model.add_adapter("other", second)
    tokens, expected = TOKENS[1::2], []
    for name in ("default", "other"):
        model.set_adapter(name)
        with torch.no_grad():
            expected.append(model.eval()(tokens).logits)
    names = ["default", "other", "other", "default"]
    with torch.no_grad():
        logits = model(tokens, adapter_names=names).logits
    default, other = expected
    assert not torch.allclose(default, other, atol=1e-3)
    torch.testing.assert_close(logits, torch.stack([default[0], other[1], other[2], default[3]]))
