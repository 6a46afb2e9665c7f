"""Tools that replace, offload or record the layers of an exported classifier."""

import copy

import pytest
import torch
from accelerate import disk_offload
from accelerate.hooks import AlignDevicesHook, add_hook_to_module

from fairseq_linformer.huggingface.modeling_linformer import (
    LinformerForQuestionAnswering,
    LinformerForSequenceClassification,
    LinformerForTokenClassification,
)

from .test_parity import small

IDS = torch.randint(5, 50, (3, 40), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(40) < torch.tensor([[40], [25], [33]])).long()


@pytest.fixture(params=[(0, "average"), (0, "normal"), (16, "average")], ids=str)
def classifier(request):
    """Without a local window, the first layer multiplies inputs of 40 tokens in the order INPUT if there are windows,
    and otherwise in the order KEYS; the last one, which reads one position, in the order SCORES."""
    torch.manual_seed(0)
    window, init = request.param
    sizes = dict(vocab_size=50, max_positions=64, projected_dim=48, embed_dim=32, attention_heads=4, ffn_embed_dim=64)
    config = small(**sizes, projection_init=init, local_window=window, num_labels=3)
    model = LinformerForSequenceClassification(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def logits_of(model):
    with torch.no_grad():
        return model(IDS, attention_mask=MASK)["logits"]


def test_offloaded_to_a_disk(classifier, tmp_path):
    expected = logits_of(classifier)
    offloaded = disk_offload(copy.deepcopy(classifier), tmp_path, execution_device=torch.device("cpu"))
    assert next(offloaded.parameters()).device.type == "meta"
    torch.testing.assert_close(logits_of(offloaded), expected)


@pytest.mark.parametrize(
    "cls, head", [(LinformerForQuestionAnswering, "qa_outputs"), (LinformerForTokenClassification, "score")]
)
def test_layers_on_two_devices(classifier, cls, head):
    """On the device "meta" PyTorch only checks that tensors are on one device. Also padded on the left."""
    model = cls(classifier.config).eval()
    for module in (model.linformer.encoder.layers[1], model.get_submodule(head)):
        add_hook_to_module(module.to("meta"), AlignDevicesHook("meta", io_same_device=False))
    for mask in (MASK, MASK.flip(1)):
        assert model(IDS, attention_mask=mask, output_hidden_states=True)[0].is_meta


def test_a_trace_is_rejected(classifier):
    with pytest.raises(RuntimeError, match="use torch.export.export"):
        torch.jit.trace(classifier, (IDS, MASK), strict=False)
