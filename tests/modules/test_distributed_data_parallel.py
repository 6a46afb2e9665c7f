"""PyTorch's DistributedDataParallel, which raises if a parameter gets no gradient."""

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from fairseq_linformer.config import SHARING, LinformerConfig
from fairseq_linformer.modules import LinformerEncoder, attention
from fairseq_linformer.modules.order import Order, cheapest_order


@pytest.fixture
def group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/init", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "sharing, projection, init, k",
    [
        *((sharing, "linear", "average", 16) for sharing in SHARING),
        *((sharing, "conv", "average", 16) for sharing in SHARING),
        ("headwise", "linear", "normal", 16),
        ("headwise", "random", None, 16),
        ("none", "linear", "average", "16/5,7/8"),
    ],
)
def test_all_parameters_get_gradients_in_all_orders(group, monkeypatch, sharing, projection, init, k):
    """Lengths for which the orders of multiplication differ, one after the other, with padding and
    without. (In the authors' code the bias of the shared projection gets no gradient.)"""
    config = LinformerConfig(
        vocab_size=20,
        max_positions=64,
        projected_dim=k,
        sharing=sharing,
        projection=projection,
        projection_init=init,
        layers=2,
        embed_dim=8,
        ffn_embed_dim=16,
        attention_heads=2,
    )
    model = DistributedDataParallel(LinformerEncoder(config))
    ran = set()

    def remember(*args, **kwargs):
        ran.add(cheapest_order(*args, **kwargs))
        return cheapest_order(*args, **kwargs)

    monkeypatch.setattr(attention, "cheapest_order", remember)
    for n, padding in ((64, 0), (3, 0), (7, 5), (3, 1), (64, 30)):
        batch = torch.randint(2, 20, (2, n))
        if padding:
            batch[1, -padding:] = 1
        model.zero_grad()
        # Raises if a parameter had no gradient in the previous step.
        model(batch, torch.zeros(2, 1, dtype=torch.long))[0].square().sum().backward()
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert init == "average" or ran == set(Order)
