"""What users of BERT pass to a model, and what they do with it, works: padding on the left, weights of attention, new
words, half precision, graphs, tags of tokens, answers.
"""

import itertools
import math

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from fairseq_linformer.huggingface import (
    LinformerForMaskedLM,
    LinformerForQuestionAnswering,
    LinformerForSequenceClassification,
    LinformerForTokenClassification,
    LinformerModel,
)
from fairseq_linformer.modules import reference

from .test_parity import CLOSE, noisy

CLASSES = [
    LinformerModel,
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerForTokenClassification,
    LinformerForQuestionAnswering,
]
# Lengths 8, 4 and 6, padded on the right and on the left; the last sentence is padded on both sides.
RIGHT = torch.tensor([[0, 5, 6, 7, 30, 31, 12, 2], [0, 9, 5, 2, 1, 1, 1, 1], [0, 8, 4, 4, 3, 2, 1, 1]])
LEFT = torch.tensor([[0, 5, 6, 7, 30, 31, 12, 2], [1, 1, 1, 1, 0, 9, 5, 2], [1, 0, 8, 4, 4, 3, 2, 1]])


def at_tokens(output, tokens):
    """The first output, or both of an answer, at real tokens; all of a classifier."""
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], -1)[tokens.ne(1)]
    return output[0] if output[0].dim() == 2 else output[0][tokens.ne(1)]


@pytest.mark.parametrize("model_class", CLASSES)
@torch.no_grad()
def test_segments_and_default_positions_are_ignored(model_class):
    model = noisy(model_class)
    expected = model(RIGHT)[0]
    real = RIGHT.ne(1)
    counted = (real.cumsum(1) * real) + 1  # as RoBERTa counts
    for positions in (torch.arange(8), torch.arange(8).expand(3, -1), counted):
        output = model(RIGHT, token_type_ids=torch.zeros_like(RIGHT), position_ids=positions)
        assert output[0].equal(expected)


@pytest.mark.parametrize("model_class", CLASSES)
@torch.no_grad()
def test_padding_on_the_left(model_class):
    model = noisy(model_class)
    expected = at_tokens(model(RIGHT, output_hidden_states=True), RIGHT)
    real = LEFT.ne(1)
    embeddings = model.get_input_embeddings()(LEFT)
    for inputs in (
        {"input_ids": LEFT},
        {"input_ids": LEFT.masked_fill(~real, 17), "attention_mask": real.long()},
        {"inputs_embeds": embeddings, "attention_mask": real.long()},
        {"input_ids": LEFT, "position_ids": (real.cumsum(1) - 1).clamp(min=0)},
        {"input_ids": LEFT, "output_hidden_states": True},
    ):
        output = model(**inputs)
        torch.testing.assert_close(at_tokens(output, LEFT), expected, **CLOSE)
    for left, right in zip(output.hidden_states, model(RIGHT, output_hidden_states=True).hidden_states):
        torch.testing.assert_close(left[real], right[RIGHT.ne(1)], **CLOSE)
    assert model(torch.tensor([[1, 1], [5, 1]]))  # a sentence of only padding is allowed


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"local_window": 0, "sharing": "layerwise", "normalize_before": True},
        {"sharing": "none", "projected_dim": 7},
        {"local_window": 0, "projection": "none", "projected_dim": None, "projection_init": None},
    ],
    ids=["local window", "layerwise, pre-norm", "per head", "full attention"],
)
@torch.no_grad()
def test_attention_weights(options, monkeypatch):
    """They are those of the reference, for each head and query, and do not depend on the side of the padding."""
    model = noisy(LinformerModel, **options).double()
    output = model(RIGHT, output_attentions=True, output_hidden_states=True)
    left = model(LEFT, output_attentions=True)
    attend, reach, recorded = reference.attend, model.config.local_window, []

    def remember(query, attended):
        scores = torch.stack([query @ key / math.sqrt(len(query)) + bias for key, _, bias in attended])
        recorded.append(torch.softmax(scores, 0))
        return attend(query, attended)

    monkeypatch.setattr(reference, "attend", remember)
    for layer, states, weights, shifted in zip(
        model.encoder.layers, output.hidden_states, output.attentions, left.attentions
    ):
        torch.testing.assert_close(shifted.transpose(1, 2)[LEFT.ne(1)], weights.transpose(1, 2)[RIGHT.ne(1)])
        attention = layer.self_attn
        num_projected = weights.size(-1) - (2 * reach + 1 if reach else 0)
        for X, tokens, each in zip(states, RIGHT, weights):
            X, n = X[tokens.ne(1)], int(tokens.ne(1).sum())
            recorded.clear()
            reference.linear_attention(attention, layer.self_attn_layer_norm(X) if layer.normalize_before else X)
            for (i, t), of_reference in zip(itertools.product(range(2), range(n)), recorded, strict=True):
                near = range(max(0, t - reach), min(n, t + reach + 1)) if reach else ()
                columns = [*reference.biases(attention.projections[0], i, t, n, reach)]
                columns += [num_projected + p - t + reach for p in near]
                expected = torch.zeros(weights.size(-1), dtype=torch.float64)
                expected[columns] = of_reference
                torch.testing.assert_close(each[i, t], expected)


@pytest.mark.parametrize("model_class", CLASSES)
def test_resized_embeddings(model_class, tmp_path):
    """New words keep the outputs of the old ones, and are saved and loaded."""
    model = noisy(model_class)
    before = model(RIGHT)[0].detach()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    model.resize_token_embeddings(48)
    after = model(RIGHT)[0]
    torch.testing.assert_close(after[..., : before.size(-1)], before)
    assert {name for name, parameter in model.named_parameters() if not parameter.requires_grad} == frozen
    tokens = torch.tensor([[0, 47, 5, 45, 2]])
    if model_class is LinformerForMaskedLM:
        assert model.lm_head.weight is model.get_input_embeddings().weight and model.lm_head.bias.shape == (48,)
        model(tokens, labels=tokens).loss.backward()
        assert model.get_input_embeddings().weight.grad[47].abs().max() > 0
    model.save_pretrained(tmp_path)
    again = model_class.from_pretrained(tmp_path)
    assert again.config.vocab_size == 48
    assert all(value.equal(again.state_dict()[key]) for key, value in model.state_dict().items())
    torch.testing.assert_close(again(tokens)[0], model(tokens)[0])
    again.resize_token_embeddings(45)
    torch.testing.assert_close(again(RIGHT)[0], before)


LAST_LAYERS = [LinformerForMaskedLM, LinformerForSequenceClassification]
"""With a last layer that computes some positions only."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "model_class",
    [*LAST_LAYERS, *(pytest.param(each, marks=pytest.mark.nightly) for each in CLASSES if each not in LAST_LAYERS)],
)
@torch.no_grad()
def test_exported_program(model_class):
    """``torch.export`` with any batch and length, padded on either side; the local window is computed in blocks of 32
    positions, and n has no columns of E to cut."""
    model = noisy(model_class, max_positions=64, local_window=16)
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    example = {"input_ids": RIGHT.clone(), "attention_mask": RIGHT.ne(1).long()}
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        program = torch.export.export(model, (), example, dynamic_shapes=dict.fromkeys(example, sizes)).module()
    lengths = [RIGHT[:2].repeat(3, 8)[:, :n] for n in (11, 32, 33, 64)]
    for tokens in (RIGHT, LEFT, LEFT[1:, 1:], *lengths):
        inputs = {"input_ids": tokens.clone(), "attention_mask": tokens.ne(1).long()}
        torch.testing.assert_close(at_tokens(program(**inputs), tokens), at_tokens(model(**inputs), tokens), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision(dtype, tmp_path):
    """A file in half precision, or one that is loaded in it, for inputs with and without padding."""
    model = noisy(LinformerForMaskedLM)
    model.save_pretrained(tmp_path / "single")
    model.to(dtype).save_pretrained(tmp_path / "half")
    expected = at_tokens(model.float()(RIGHT), RIGHT)
    for folder, choice in (("half", "auto"), ("single", dtype)):
        half = AutoModelForMaskedLM.from_pretrained(tmp_path / folder, dtype=choice).eval()
        assert {tensor.dtype for tensor in half.state_dict().values()} == {dtype}
        for tokens in (RIGHT, LEFT):
            output = half(tokens, output_attentions=True)
            logits = at_tokens(output, tokens)
            assert logits.dtype == dtype and output.attentions[0].isfinite().all()
            torch.testing.assert_close(logits.float(), expected, rtol=0, atol=0.05 * float(expected.abs().max()))
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "single", dtype="auto").dtype == torch.float32


def test_subclass(masked_lm_folder):
    """A user's model: its own layer is initialized when the file lacks it."""

    class Tagger(LinformerForTokenClassification):
        def __init__(self, config):
            super().__init__(config)
            self.extra = nn.Linear(config.embed_dim, 2)
            self.post_init()

    torch.manual_seed(0)
    model = Tagger.from_pretrained(masked_lm_folder)
    assert 0 < model.extra.weight.abs().max() <= model.config.embed_dim**-0.5
    encoder = AutoModel.from_pretrained(masked_lm_folder)
    assert torch.equal(model.linformer.encoder.embed_tokens.weight, encoder.encoder.embed_tokens.weight)


def test_heads_of_an_exported_folder(masked_lm_folder):
    """New heads on a trained encoder; losses are those of ``transformers``."""
    encoder = AutoModel.from_pretrained(masked_lm_folder)
    tokens = torch.tensor([[0, 5, 6, 7, 2, 1, 1], [0, 9, 8, 5, 6, 4, 2]])
    tags = AutoModelForTokenClassification.from_pretrained(masked_lm_folder, num_labels=3)
    assert type(tags) is LinformerForTokenClassification
    labels = torch.where(tokens > 4, tokens % 3, -100)
    output = tags(tokens, labels=labels)
    expected = tags.score(encoder(tokens).last_hidden_state)
    torch.testing.assert_close(output.logits[tokens.ne(1)], expected[tokens.ne(1)])
    torch.testing.assert_close(output.loss, nn.functional.cross_entropy(expected[labels >= 0], labels[labels >= 0]))
    answers = AutoModelForQuestionAnswering.from_pretrained(masked_lm_folder)
    assert type(answers) is LinformerForQuestionAnswering
    output = answers(tokens, start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([3, 5]))
    assert output.start_logits.shape == (2, 7)
    # Padding is no answer: the probabilities of the first sentence are those without padding.
    alone = answers(tokens[:1, :5], start_positions=torch.tensor([1]), end_positions=torch.tensor([3]))
    other = answers(tokens[1:], start_positions=torch.tensor([2]), end_positions=torch.tensor([5]))
    torch.testing.assert_close(output.loss, (alone.loss + other.loss) / 2)
    for auto in (AutoModelForSequenceClassification, AutoModelForMaskedLM):  # the file's own heads do not disturb
        assert auto.from_pretrained(masked_lm_folder)
