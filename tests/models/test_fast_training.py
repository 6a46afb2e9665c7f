"""--compile and --optimizer fused_adam: the same model, faster."""

import argparse

import pytest
import torch
from fairseq.optim.adam import FairseqAdam
from torch import nn

from fairseq_linformer.models import FusedAdam

from ..fairseq_commands import BASE_ADAM, load, same_bits, train
from ..modules.test_encoder import build

NO_DROPOUT = ["--dropout", "0", "--attention-dropout", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("local_window", [0, 3])
def test_what_is_compiled_is_all_of_the_layer(local_window):
    """Captured whole (a graph break would raise), with and without padding, all positions and some; also after a cast,
    which replaces every buffer."""
    torch._dynamo.reset()
    shape = dict(sharing="headwise", layers=1, dropout=0, attention_dropout=0, local_window=local_window)
    encoder, plain = build(**shape).double(), build(**shape).double()
    for layer in encoder.layers:
        layer.compile(backend="aot_eager", fullgraph=True)
    assert list(encoder.state_dict()) == list(plain.state_dict())
    tokens = torch.randint(2, 20, (2, 12))
    padded = tokens.clone()
    padded[0, 5:] = 1
    for batch, positions in ((tokens, None), (padded, torch.zeros(2, 3, dtype=torch.long))):
        ours, theirs = encoder(batch, positions)[0], plain(batch, positions)[0]
        torch.testing.assert_close(ours, theirs)
    ours.sum().backward()
    theirs.sum().backward()
    for (name, a), b in zip(encoder.named_parameters(), plain.parameters()):
        torch.testing.assert_close(a.grad, b.grad, msg=name)
    for layer in encoder.layers:
        layer.self_attn.dropout = layer.dropout_module.p = 0.5
    dropped = encoder(tokens)[0]
    dropped.sum().backward()
    assert dropped.isfinite().all() and not torch.allclose(dropped, plain(tokens)[0])


@pytest.mark.nightly
def test_compiled_training_is_the_same(mlm_data, tmp_path):
    """The real compiler, on one layer, as each takes seconds; the checkpoint omits it and has the same names."""
    options = [*NO_DROPOUT, "--encoder-layers", "1"]
    plain = train(mlm_data, tmp_path / "plain", *options, updates=3)
    compiled = train(mlm_data, tmp_path / "compiled", *options, "--compile", updates=3)
    assert compiled == pytest.approx(plain, abs=1e-4)
    a, b = load(tmp_path / "plain"), load(tmp_path / "compiled")
    assert list(a["model"]) == list(b["model"]) and not b["cfg"]["model"]["compile"]


def test_fused_adam_takes_the_steps_of_adam():
    """fairseq's, with weight decay, from the same gradients; and it says that all parameters may be one."""
    torch.manual_seed(0)
    start = torch.randn(50)
    ours, theirs = (nn.Parameter(start.clone()) for _ in range(2))
    values = dict(lr=[0.01], adam_betas="(0.9, 0.98)", adam_eps=1e-8, weight_decay=0.1)
    fused = FusedAdam(argparse.Namespace(**values), [ours])
    adam = FairseqAdam(argparse.Namespace(**values, tpu=False, fp16_adam_stats=False, use_old_adam=True), [theirs])
    for _ in range(5):
        ours.grad = torch.randn(50)
        theirs.grad = ours.grad.clone()
        fused.step()
        adam.step()
    torch.testing.assert_close(ours, theirs)
    assert (ours - start).abs().min() > 1e-4 and fused.supports_flat_params and not fused.supports_memory_efficient_fp16


@pytest.mark.slow
def test_fused_adam_resumes_bit_identically(mlm_data, tmp_path):
    options = ["--optimizer", "fused_adam", *BASE_ADAM]
    train(mlm_data, tmp_path / "whole", *options, updates=4)
    for updates in (2, 4):  # goes on from its checkpoint
        train(mlm_data, tmp_path / "resumed", *options, updates=updates)
    assert same_bits(tmp_path / "resumed", tmp_path / "whole")
