"""The fairseq adapter: parameter names and counts, RoBERTa's options, heads, positions of the last layer."""

import argparse

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.models.roberta import RobertaModel
from fairseq.quantization_utils import quantize_model_scalar
from omegaconf import OmegaConf

from fairseq_linformer.config import SHARING
from fairseq_linformer.models import LinformerRobertaConfig
from fairseq_linformer.modules import length_groups
from fairseq_linformer.modules.projection import learned_projections

SMALL = dict(
    encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=32, encoder_attention_heads=2, projected_dim=6
)


class Task:
    """The attributes of a fairseq task that building a model needs."""

    def __init__(self):
        self.source_dictionary = Dictionary()
        for i in range(30):
            self.source_dictionary.add_symbol(f"w{i}")
        self.source_dictionary.add_symbol("<mask>")
        self.max_positions = lambda: 16


def build(arch="linformer_roberta_tiny", seed=0, **options):
    torch.manual_seed(seed)
    cfg = OmegaConf.merge(OmegaConf.structured(LinformerRobertaConfig), {**SMALL, **options})
    cfg._name = arch
    cfg = OmegaConf.create({"model": cfg}).model
    return quantize_model_scalar(build_model(cfg, Task()), cfg)  # like FairseqTask.build_model


def without_dropout(**options):
    return dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, pooler_dropout=0.0, **options)


def tokens(*lengths, padded_to=None):
    batch = torch.ones(len(lengths), padded_to or max(lengths), dtype=torch.long)
    for row, length in zip(batch, lengths):
        row[:length] = torch.randint(4, 34, (length,))
        row[0] = 0
    return batch


@pytest.mark.parametrize("sharing, expected", zip(SHARING, (288, 24, 12, 1)))
@pytest.mark.slow
def test_number_of_matrices_at_base_size(sharing, expected):
    sizes = dict(projected_dim=6, encoder_layers=12, encoder_embed_dim=48, encoder_attention_heads=12)
    model = build(arch="linformer_roberta_base", sharing=sharing, **sizes)
    assert sum(each.heads or 1 for each in learned_projections(model)) == expected
    state = model.state_dict()
    saved = [v for key, v in state.items() if key.endswith((".E.delta", ".F.delta"))]
    assert sum(v.numel() for v in saved) == expected * 6 * 16
    pointers = [v.data_ptr() for key, v in state.items() if "lm_head.weight" not in key and v.numel()]
    assert len(set(pointers)) == len(pointers)


def test_parameter_names_are_robertas_plus_projections():
    shape = {key: value for key, value in SMALL.items() if key != "projected_dim"}
    args = argparse.Namespace(arch="roberta", max_positions=16, **shape)
    theirs = RobertaModel.build_model(args, Task()).state_dict()
    ours = build(sharing="layerwise", projection_lr_scale=0.5).state_dict()
    assert theirs.keys() - ours.keys() == {"encoder.sentence_encoder.version"}
    entries = {f"encoder.sentence_encoder.E.{name}" for name in "delta start scale windows window_options".split()}
    assert ours.keys() - theirs.keys() == entries
    assert all(ours[key].shape == theirs[key].shape for key in ours.keys() & theirs.keys())


@pytest.mark.parametrize("prenorm", [False, True])
def test_full_attention_is_roberta(prenorm):
    """Parameters, also their order, logits of padded batches, and gradients."""
    shape = {**SMALL, **without_dropout(), "encoder_normalize_before": prenorm, "layernorm_embedding": True}
    args = argparse.Namespace(arch="roberta", max_positions=16, **shape)
    theirs = RobertaModel.build_model(args, Task()).double()
    ours = build(projection="none", projected_dim=None, encoder_normalize_before=prenorm, **without_dropout()).double()
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.3)
    ours.load_state_dict(theirs.state_dict())
    batch = tokens(16, 11, 1)
    real = batch.ne(1)
    losses = [model(batch)[0][real].square().sum() for model in (ours, theirs)]
    torch.testing.assert_close(*losses)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    gradients = [torch.autograd.grad(loss, [*model.parameters()]) for model, loss in zip((ours, theirs), losses)]
    for ours, theirs in zip(*gradients):  # fairseq's softmax is in single precision
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("prenorm", [False, True])
def test_masked_positions_give_the_same_logits(sharing, prenorm):
    model = build(sharing=sharing, encoder_normalize_before=prenorm, **without_dropout()).train()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    batch = tokens(16, 11, 5, 16)
    masked = (torch.rand(batch.shape) < 0.3) & batch.ne(1)
    masked[3] = False  # a sentence without a masked token

    def loss_and_gradients(logits):
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits, batch[masked], reduction="sum")
        loss.backward()
        return loss, {key: p.grad.clone() for key, p in model.named_parameters()}

    restricted = model(batch, masked_tokens=masked)[0]
    everywhere = model(batch)[0][masked]
    torch.testing.assert_close(restricted, everywhere, rtol=1e-5, atol=2e-5)
    loss, gradients = loss_and_gradients(restricted)
    expected_loss, expected = loss_and_gradients(model(batch)[0][masked])
    torch.testing.assert_close(loss, expected_loss, rtol=1e-6, atol=0)
    for key in expected:
        torch.testing.assert_close(gradients[key], expected[key], rtol=1e-4, atol=1e-4, msg=lambda m: f"{key}: {m}")


def test_classification_head_reads_only_the_first_position():
    model = build(**without_dropout()).eval()
    model.register_classification_head("topic", num_classes=3)
    batch = tokens(16, 7)
    logits = model(batch, classification_head_name="topic")[0]
    features = model(batch, features_only=True)[0]
    torch.testing.assert_close(logits, model.classification_heads["topic"](features), rtol=0, atol=1e-6)
    computed = []
    model.encoder.sentence_encoder.layers[-1].fc1.register_forward_hook(lambda _, x, y: computed.append(y.shape[:2]))
    model(batch, classification_head_name="topic")
    hidden = model(batch, classification_head_name="topic", return_all_hiddens=True)
    assert computed == [(2, 1), (2, 16)] and len(hidden[1]["inner_states"]) == 3


def test_options_change_the_modules():
    frozen = build(freeze_projections=True, sharing="none")
    assert {key for key, p in frozen.named_parameters() if not p.requires_grad} == {
        f"encoder.sentence_encoder.layers.{i}.self_attn.{m}.delta" for i in (0, 1) for m in "EF"
    }
    relu_head, tanh_head = build(pooler_activation_fn="relu"), build()
    for model in (relu_head, tanh_head):
        model.register_classification_head("x", num_classes=2)
    assert relu_head.classification_heads["x"].activation_fn is not tanh_head.classification_heads["x"].activation_fn
    dropped = build(dropout=0.3, attention_dropout=0.2, activation_dropout=0.1).encoder.sentence_encoder
    layer = dropped.layers[0]
    assert (layer.dropout_module.p, layer.self_attn.dropout, layer.activation_dropout_module.p) == (0.3, 0.2, 0.1)
    full = build(projection="none", projected_dim=None, sharing=None, attention_dropout=0.2).encoder.sentence_encoder
    assert full.layers[0].self_attn.dropout == 0.2


@pytest.mark.parametrize("options, calls", [({}, 2), (dict(compile=True), 1)], ids=str)
def test_layers_are_compiled_for_whole_batches(options, calls, monkeypatch):
    monkeypatch.setattr(length_groups, "GROUP_POSITIONS", 0)
    monkeypatch.setattr(length_groups, "ENTRY_COST", 0)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: None)
    model, called = build(**options).train(), []
    model.encoder.sentence_encoder.layers[0].register_forward_hook(lambda *_: called.append(1))
    model(tokens(16, 9))
    assert len(called) == calls


def test_checkpointing_and_offloading_keep_the_gradients():
    batch = tokens(16, 9)
    results, stored = [], []
    for options in ({}, dict(checkpoint_activations=True), dict(offload_activations=True)):
        model = build(sharing="layerwise", dropout=0.2, **options).train()
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
            torch.manual_seed(3)
            loss = model(batch)[0].square().sum()
        loss.backward()
        stored.append(sum(sizes))
        results.append([loss, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert stored[1] < stored[0] / 2
    for other in results[1:]:
        for a, b in zip(results[0], other):
            torch.testing.assert_close(a, b)


def test_offloading_moves_the_input_of_each_layer_and_nothing_else(monkeypatch):
    """Not the matrix that all layers share, which would be copied for each."""
    offloaded = []

    class Spy(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pin_memory):
            super().__init__(lambda tensor: (offloaded.append(tensor), tensor)[1], lambda tensor: tensor)

    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", Spy)
    model, inputs = build(sharing="layerwise", encoder_layers=3, offload_activations=True).train(), []
    for layer in model.encoder.sentence_encoder.layers:
        layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    model(tokens(16, 9))[0].sum().backward()
    moved = [tensor for tensor in offloaded if tensor.numel()]
    assert len(moved) == 3 and len(inputs) == 6  # each layer runs again in the backward pass
    assert all(tensor is given or torch.equal(tensor, given) for tensor, given in zip(moved, inputs))


def test_no_value_of_layers_to_keep_removes_layers():
    assert len(build(encoder_layers=3, encoder_layers_to_keep="none").encoder.sentence_encoder.layers) == 3


def test_layerdrop_skips_layers_only_in_training():
    model = build(encoder_layers=8, encoder_layerdrop=0.5)
    calls = []
    for layer in model.encoder.sentence_encoder.layers:
        layer.register_forward_hook(lambda *_: calls.append(1))
    model.eval()(tokens(9))
    assert len(calls) == 8
    for _ in range(50):
        model.train()(tokens(9))
    assert 8 + 50 * 2.5 < len(calls) < 8 + 50 * 5.5
    _, extra = model.train()(tokens(9), features_only=True, return_all_hiddens=True)
    assert len(extra["inner_states"]) == 9  # states are of all layers
    everything_dropped = build(encoder_layers=1, encoder_layerdrop=0.999, **without_dropout()).train()
    batch = tokens(9, 4)
    masked = batch.eq(batch[0, 1])
    torch.testing.assert_close(everything_dropped(batch, masked_tokens=masked)[0], everything_dropped(batch)[0][masked])
