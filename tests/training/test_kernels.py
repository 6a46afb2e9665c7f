"""plan --kernels: the kernels that PyTorch selects for the shapes of a model."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from fairseq_linformer.cli import main
from fairseq_linformer.training import kernels
from fairseq_linformer.training.compose import compose_config
from fairseq_linformer.training.kernels import AttentionCall, find_kernels, select_kernel

from .runs import PRETRAIN

OPERATORS = {
    "flash": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "math": "aten::_scaled_dot_product_attention_math",
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mask, dropout", [(False, 0.0), (True, 0.0), (False, 0.1)])
@pytest.mark.parametrize("backends", [list(OPERATORS), ["math"]], ids=str)
def test_the_selected_kernel_is_the_one_that_runs(dtype, mask, dropout, backends):
    q, k = torch.randn(2, 2, 8, 16, dtype=dtype), torch.randn(2, 2, 4, 16, dtype=dtype)
    bias = torch.zeros(1, 1, 1, 4, dtype=dtype) if mask else None
    allowed = {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}
    with sdpa_kernel([allowed[name] for name in backends]):
        kernel = select_kernel(q, k, k, bias, dropout)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            F.scaled_dot_product_attention(q, k, k, bias, dropout)
    ran = {event.key for event in profiler.key_averages()}
    assert [name for name, operator in OPERATORS.items() if operator in ran] == [kernel]


def find(*overrides):
    """At n = 64, d_h = 32, four heads; 10 masked tokens."""
    return find_kernels(compose_config(PRETRAIN / "base.yaml", ["+run=tiny", *overrides]), "cpu")


def test_calls_have_the_shapes_of_the_model():
    """Each k once; the last layer of training has queries at the masked positions; padding is masked by sentence."""
    found = find("model.projected_dim='32,16'", "model.attention_dropout=0")
    queries, few = (2, 4, 64, 32), (2, 4, 10, 32)
    for k in (32, 16):
        keys = (2, 4, k, 32)
        for use, q, sentences in (
            ("training", queries, 1),
            ("training, last layer", few, 1),
            ("training, padded", queries, 2),
            ("training, padded, last layer", few, 2),
            ("inference", queries, 1),
            ("inference, padded", queries, 2),
        ):
            call = AttentionCall(use, q, keys, (sentences, 1, 1, k), 0.0)
            assert found.pop(call) == {"fp32": "flash", "fp16": "flash", "bf16": "flash"}
    assert not found


def test_padded_batches_run_whole():
    """Also at lengths at which sentences of different length would run in groups."""
    found = find("task.tokens_per_sample=512", "model.attention_dropout=0")
    assert {call.queries[0] for call in found} == {2}
    assert {call.mask[0] for call in found if "padded" in call.use} == {2}


def test_layers_without_a_call_are_listed():
    """On a CPU this package multiplies itself if there is dropout."""
    found = find("model.attention_dropout=0.1", "model.projected_dim=16")
    assert found[AttentionCall("training", dropout=0.1)]["fp32"] == "none"


@pytest.mark.slow
def test_roberta_is_covered():
    found = find_kernels(compose_config(PRETRAIN / "run/n512-roberta.yaml", ["task.tokens_per_sample=32"]), "cpu")
    heads = (2, 12, 32, 64)
    assert found[AttentionCall("training", heads, heads, None, 0.1)]["fp32"] == "math"
    assert found[AttentionCall("inference", heads, heads, None, 0.0)]["fp32"] == "flash"


def test_a_gpu_also_has_the_other_kernels_that_support_a_shape(monkeypatch):
    tensor = SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(torch, "_fused_sdp_choice", lambda *arguments: int(SDPBackend.EFFICIENT_ATTENTION))
    monkeypatch.setattr(kernels.cuda, "SDPAParams", lambda *arguments: arguments)
    for name, supported in (("flash", False), ("efficient", True), ("cudnn", True)):
        monkeypatch.setattr(kernels.cuda, f"can_use_{name}_attention", lambda _, supported=supported: supported)
    assert select_kernel(tensor, tensor, tensor) == "efficient (cudnn)"


def test_command(capsys):
    main(["plan", "--kernels", "+run=tiny", "model.attention_dropout=0"])
    lines = capsys.readouterr().out.splitlines()
    assert "n = 64, k = 32" in lines[1] and lines[3].split()[-3:] == ["fp32", "fp16", "bf16"]
    assert any(line.split() == "inference 2x4x64x32 2x4x32x32 1x1x1x32 0 flash flash flash".split() for line in lines)
    with pytest.raises(SystemExit, match="--gpu cannot be used with --kernels"):
        main(["plan", "--kernels", "--gpu", "v100-16gb"])
