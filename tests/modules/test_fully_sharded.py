"""PyTorch's fully sharded data parallelism over two processes, against one process with all sentences.

fairseq shards with fairscale, which needs GPUs; what matters is the same there: a parameter is cut
into pieces, is whole while its module computes, and the optimizer sees the pieces."""

import socket

import pytest
import torch
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

VARIANTS = {
    "none": dict(sharing="none", projected_dim="8/3,5"),
    "layerwise conv": dict(sharing="layerwise", projection="conv"),
}


def trained(options, wrap=lambda model: model, rank=0, world=1):
    """Three steps of Adam, E and F at a sixteenth of the rate; every process has its share of the sentences."""
    torch.manual_seed(0)
    model = wrap(
        LinformerEncoder(
            LinformerConfig(
                vocab_size=20,
                max_positions=16,
                layers=2,
                embed_dim=8,
                ffn_embed_dim=16,
                attention_heads=2,
                dropout=0,
                attention_dropout=0,
                projection_lr_scale=1 / 16,
                **{"projected_dim": 8, **options},
            )
        )
    )
    # The bias of keys has no gradient but what rounding leaves, which a smaller eps would make a step of.
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1, eps=1e-4)
    for step in range(3):
        tokens = torch.randint(2, 20, (4, 16), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(tokens[rank::world])[0].square().mean().backward()
        optimizer.step()
    return {
        key: value.full_tensor() if hasattr(value, "full_tensor") else value
        for key, value in model.state_dict().items()
    }


def process(rank, port, options, path):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))

    def shard(model):
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    state = trained(options, shard, rank, 2)
    if rank == 0:
        torch.save(state, path)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_two_sharded_processes_equal_one(variant, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    single = trained(VARIANTS[variant])
    arguments = port, VARIANTS[variant], tmp_path / "state.pt"
    torch.multiprocessing.start_processes(process, arguments, nprocs=2, start_method="fork")
    sharded = torch.load(tmp_path / "state.pt")
    assert sharded.keys() == single.keys()
    for key, value in single.items():
        torch.testing.assert_close(sharded[key], value, rtol=0, atol=1e-5, msg=lambda m: f"{key}: {m}")
