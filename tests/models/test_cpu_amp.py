"""``--cpu --amp``: bf16 forward passes, single-precision parameters, and no update from non-finite gradients."""

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks.fairseq_task import FairseqTask
from omegaconf import OmegaConf

from fairseq_linformer.models import fairseq_fixes
from fairseq_linformer.modules.attention import LinearMultiheadAttention
from fairseq_linformer.modules.linear import LinearProjection
from fairseq_linformer.modules.order import Order

from ..fairseq_commands import same_bits, train
from ..modules.test_attention import use


def build_optimizer(parameter: torch.nn.Parameter) -> AMPOptimizer:
    cfg = OmegaConf.structured(FairseqConfig)
    adam = OmegaConf.structured(FairseqAdamConfig(lr=[0.1]))
    cfg.optimizer = OmegaConf.create({**OmegaConf.to_container(adam), "_name": "adam"})
    return AMPOptimizer.build_optimizer(cfg, [parameter])


class Model(torch.nn.Module):
    """A product; keeps the dtype of its result."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        product = x @ self.weight
        self.dtype = product.dtype
        return product

    def set_num_updates(self, num_updates):
        pass


def criterion(model, sample):
    return model(sample).float().sum(), 1, {}


def test_forward_is_bf16_and_gradients_are_single_precision():
    model = Model()
    task = FairseqTask(None)
    task.train_step(torch.ones(4, 4), model, criterion, build_optimizer(model.weight), 0)
    assert model.dtype == torch.bfloat16
    assert model.weight.grad.dtype == torch.float32 and model.weight.grad.eq(4).all()
    task.valid_step(torch.ones(4, 4), model, criterion)
    assert model.dtype == torch.float32


def test_linear_attention_is_single_precision():
    attention = LinearMultiheadAttention(8, 2, LinearProjection(8, 4))
    contexts = []
    attention.out_proj.register_forward_pre_hook(lambda module, inputs: contexts.append(inputs[0].dtype))
    fairseq_fixes._exempt_attention()
    with torch.autocast("cpu", torch.bfloat16):
        use(attention, Order.KEYS)(torch.randn(2, 8, 8))
    assert contexts == [torch.float32]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_non_finite_gradients_raise(value):
    model = Model()
    optimizer = build_optimizer(model.weight)
    FairseqTask(None).train_step(torch.full((4, 4), value), model, criterion, optimizer, 0)
    with pytest.raises(FloatingPointError, match="gradients are Nan/Inf"):
        optimizer.clip_grad_norm(1.0)
    assert model.weight.eq(1).all()


def test_gradients_are_unscaled_once():
    """By the scaler of a GPU, which the CPU has, too."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = build_optimizer(parameter)
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    optimizer.backward(3 * parameter.sum())
    assert optimizer.clip_grad_norm(0.0) == 3
    optimizer.step()
    moment = optimizer.optimizer.state[parameter]["exp_avg"]
    torch.testing.assert_close(moment, torch.tensor([3 * 0.1]))  # beta is 0.9


@pytest.mark.slow
def test_training_is_close_to_single_precision_and_resumes_bit_identically(mlm_data, tmp_path):
    options = ["--sharing", "layerwise", "--local-window", "2", "--checkpoint-activations", "--lr", "0.03"]
    single = train(mlm_data, tmp_path / "single", *options, "--no-save", updates=10)
    losses = train(mlm_data, tmp_path / "amp", *options, "--amp", updates=10)
    assert losses != single and losses == pytest.approx(single, abs=0.05)
    train(mlm_data, tmp_path / "resumed", *options, "--amp", updates=4)
    train(mlm_data, tmp_path / "resumed", *options, "--amp", updates=10)
    assert same_bits(tmp_path / "resumed", tmp_path / "amp")
