"""``fully_shard`` of each layer and of the whole model, on two processes over gloo."""

import multiprocessing

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from fairseq_linformer.huggingface import LinformerForMaskedLM, LinformerPreTrainedConfig

TOKENS = torch.randint(5, 50, (4, 16), generator=torch.Generator().manual_seed(0))


def build(sharing, window):
    torch.manual_seed(0)
    sizes = dict(vocab_size=50, max_positions=16, projected_dim=4, layers=2, embed_dim=16, ffn_embed_dim=32)
    options = dict(attention_heads=2, sharing=sharing, local_window=window, dropout=0.0, attention_dropout=0.0)
    model = LinformerForMaskedLM(LinformerPreTrainedConfig(**sizes, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def train(model, tokens):
    """The loss before each of three updates."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(3):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def train_shard(rank, folder, sharing, window):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/init", rank=rank, world_size=2)
    mesh, model = init_device_mesh("cpu", (2,)), build(sharing, window)
    for module in (*model.linformer.encoder.layers, model):
        fully_shard(module, mesh=mesh)
    losses = train(model, TOKENS[2 * rank : 2 * rank + 2])
    dist.all_reduce(losses)
    torch.save(losses / 2, folder / f"losses{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("sharing, window", [("layerwise", 0), ("headwise", 0), ("headwise", 3)])
def test_two_shards_train_as_one_model(sharing, window, tmp_path):
    expected = train(build(sharing, window), TOKENS)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=train_shard, args=(rank, tmp_path, sharing, window)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(300)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    for rank in (0, 1):
        torch.testing.assert_close(torch.load(tmp_path / f"losses{rank}.pt"), expected, rtol=0, atol=1e-5)
