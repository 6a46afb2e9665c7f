"""Models in transformers compute the same as in fairseq."""

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.export import export_checkpoint
from fairseq_linformer.huggingface import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerPreTrainedConfig,
)

from .. import fairseq_commands
from ..checkpoint_fixtures import hub

TOKENS = torch.tensor([[0, 5, 6, 7, 30, 31, 12, 2], [0, 9, 5, 2, 1, 1, 1, 1]])
SINGLE = torch.tensor([[0, 44, 17, 2]])
CLOSE = dict(rtol=0, atol=1e-5)


def real(features, tokens):
    """Drop values at padding, which are meaningless."""
    return features[tokens.ne(1)]


VARIANTS = {
    "k per head": "--sharing none --projected-dim 8/4,4",
    "max-pool": "--projection max-pool --projected-dim 5",
    "conv for all layers": "--projection conv --sharing layerwise",
    "random": "--projection random --sharing key-value",
    "layerwise, pre-norm, untied": "--sharing layerwise --encoder-normalize-before --untie-weights-roberta",
    "normal, full rate": "--projection-init normal --projection-lr-scale 1.0 --projected-dim 16",
    "local window, graded, frozen": "--local-window 3 --projected-dim 6 --projection-init graded --freeze-projections",
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_exported_and_imported(variant, train_checkpoint, mlm_data, tmp_path):
    source, out, back = train_checkpoint(*VARIANTS[variant].split()), tmp_path / "out", tmp_path / "back"
    theirs = hub(source, mlm_data, bpe="characters")
    export_checkpoint(source / "checkpoint_last.pt", out, tokenizer=False)
    encoder = AutoModel.from_pretrained(out).eval()
    model = AutoModelForMaskedLM.from_pretrained(out).eval()
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == ("untied" not in variant)
    with torch.no_grad():
        for tokens in (TOKENS, SINGLE):
            features = theirs.extract_features(tokens)
            assert features.abs().max() > 0.1
            output = model(tokens, attention_mask=tokens.ne(1).long(), output_hidden_states=True)
            ours = [encoder(tokens).last_hidden_state, output.logits, *output.hidden_states]
            hiddens = theirs.extract_features(tokens, return_all_hiddens=True)
            for each, expected in zip(ours, [features, theirs.model(tokens)[0], *hiddens], strict=True):
                torch.testing.assert_close(real(each, tokens), real(expected, tokens), **CLOSE)
    convert(out, back)
    found, before = fairseq_commands.load(back, "model.pt"), fairseq_commands.load(source)
    state = theirs.model.state_dict()
    assert found["model"].keys() == state.keys()
    assert all(value.equal(state[key]) for key, value in found["model"].items())
    assert found["cfg"]["model"] == before["cfg"]["model"]
    hub(back, mlm_data, bpe="characters", name="model.pt")


def test_classification(classifier, classifier_folder, pieces):
    theirs = hub(classifier, pieces)
    model = AutoModelForSequenceClassification.from_pretrained(classifier_folder).eval()
    assert model.config.id2label == {0: "animal: cat", 1: "dog"}
    assert model.config.label2id == {"animal: cat": 0, "dog": 1}
    tokens = torch.tensor([[0, 5, 6, 7, 2], [0, 9, 2, 1, 1]])
    with torch.no_grad():
        expected = theirs.predict("animal", tokens, return_logits=True)
        assert expected.abs().max() > 0.01
        torch.testing.assert_close(model(tokens).logits, expected, **CLOSE)
        # The head needs one position of the last layer; with hidden states all are computed.
        torch.testing.assert_close(model(tokens, output_hidden_states=True).logits, expected, **CLOSE)
        masked_lm = AutoModelForMaskedLM.from_pretrained(classifier_folder).eval()
        torch.testing.assert_close(masked_lm(tokens[:1]).logits, theirs.model(tokens[:1])[0], **CLOSE)


def small(**changes) -> LinformerPreTrainedConfig:
    sizes = dict(vocab_size=45, max_positions=16, projected_dim=4)
    sizes |= dict(layers=2, embed_dim=16, ffn_embed_dim=32, attention_heads=2)
    return LinformerPreTrainedConfig(**{**sizes, **changes})


def noisy(model_class, seed=0, **changes):
    """A small model in which every weight matters."""
    torch.manual_seed(seed)
    model = model_class(small(**{"local_window": 2, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def test_losses_and_tuples():
    tokens, labels = TOKENS[:1], torch.full((1, 8), -100)
    labels[0, 3] = 11
    model = LinformerForMaskedLM(small()).eval()
    loss, logits = model(tokens, labels=labels, return_dict=False)
    torch.testing.assert_close(loss, -logits[0, 3].log_softmax(-1)[11])
    model = LinformerForSequenceClassification(small(num_labels=3)).eval()
    output = model(tokens, labels=torch.tensor([2]))
    torch.testing.assert_close(output.loss, -output.logits[0].log_softmax(-1)[2])
    model = LinformerForSequenceClassification(small(num_labels=1)).eval()
    output = model(tokens, labels=torch.tensor([0.5]))
    torch.testing.assert_close(output.loss, (output.logits[0, 0] - 0.5) ** 2)


@pytest.mark.slow
def test_missing_weights_are_initialized(train_checkpoint, tmp_path):
    folder = train_checkpoint("--sharing", "headwise", "--freeze-projections")
    export_checkpoint(folder / "checkpoint_last.pt", tmp_path / "out", tokenizer=False)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", num_labels=5)
    assert 0.01 < model.classifier.dense.weight.std() < 0.03
    assert model.classifier.out_proj.weight.shape == (5, 16) and (model.classifier.out_proj.bias == 0).all()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    # E and F of the checkpoint, and the language-model head without the tied embeddings.
    assert {name.split(".")[0] for name in frozen} == {"linformer", "lm_head"}
    assert all(".self_attn.E." in name or ".self_attn.F." in name for name in frozen if name.startswith("linformer"))
    assert model.get_input_embeddings().weight.requires_grad and model.classifier.dense.weight.requires_grad
    # Quantizers mark layers, which a new model may not have.
    layer = model.linformer.encoder.layers[0]
    layer.fc1.input_scale, layer.fc1._is_hf_initialized = torch.nn.Parameter(torch.ones(())), True
    model.initialize_weights()
    # A model built from a configuration is initialized as in fairseq: E and F average windows.
    again = LinformerForMaskedLM(small(projection_lr_scale=1.0, projection_init="average"))
    E = again.linformer.encoder.layers[0].self_attn.E()
    torch.testing.assert_close(E.sum(-1), torch.ones(4))
    assert E[0].tolist() == [1, *[0] * 15] and E[1].unique().tolist() == [0, 0.25]


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda m: m(torch.full((1, 17), 5)), "at most 16 positions.* got 17"),
        (lambda m: m(), "input_ids and inputs_embeds"),
        (lambda m: m(SINGLE, attention_mask=torch.ones(1, 1, 4, 4)), r"attention_mask .* got \(1, 1, 4, 4\)"),
        (lambda m: m(SINGLE, token_type_ids=SINGLE.ne(44).long()), "token_type_ids must be zero"),
        (lambda m: m(SINGLE, position_ids=torch.tensor([[0, 2, 3, 4]])), "position_ids must count the tokens"),
        (lambda m: m(SINGLE, position_ids=torch.arange(4) + 7), "position_ids must count the tokens"),
        (lambda m: small(sharing="rowwise"), "sharing .* got 'rowwise'"),
        (lambda m: small(pooler_dropout=1.5), "pooler_dropout .* got 1.5"),
        (lambda m: small(freeze_projections="false"), "freeze_projections must be true or false, got 'false'"),
    ],
)
def test_rejections(call, named):
    with pytest.raises(ValueError, match=named):
        call(LinformerForMaskedLM(small()))
