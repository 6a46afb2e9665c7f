"""PyTorch's DistributedDataParallel, which raises if a parameter gets no gradient."""

import multiprocessing

import pytest
import torch
import torch._inductor.config
from torch.nn.parallel import DistributedDataParallel

from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

WIDTH, LENGTH, RANKS, UPDATES = 16, 24, 2, 4


def train_rank(path, rank, is_combined):
    """Train on this rank's sentences, or on those of all ranks in turn without rank. Saves losses and parameters."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder = LinformerEncoder(
        LinformerConfig(
            vocab_size=20,
            max_positions=LENGTH,
            projected_dim=8,
            layers=2,
            embed_dim=WIDTH,
            ffn_embed_dim=2 * WIDTH,
            attention_heads=2,
            projection_init="average",  # without an offset in every second layer, the layers are compiled once
            local_window=3,
            checkpoint_activations=is_combined,
        )
    ).train()
    model = encoder
    if is_combined:
        for layer in encoder.layers:
            layer.compile(backend="aot_eager_decomp_partition")
        torch.distributed.init_process_group("gloo", init_method=f"file://{path}/init", rank=rank, world_size=RANKS)
        model = DistributedDataParallel(encoder)
    ranks = [rank] if is_combined else range(RANKS)
    # The bias of keys has no gradient but rounding errors, which a smaller eps would turn into steps.
    optimizer, losses = torch.optim.Adam(encoder.parameters(), lr=0.001, eps=1e-4), []
    for update in range(UPDATES):
        optimizer.zero_grad()
        for number in ranks:
            torch.manual_seed(RANKS * update + number)
            tokens = torch.randint(2, 20, (3, LENGTH))
            tokens[0, 15:] = 1
            target = torch.randn(3, LENGTH, WIDTH)
            loss = (model(tokens)[0] - target).square().mean()
            (loss / len(ranks)).backward()
            losses.append(loss.item())
        optimizer.step()
    torch.save((losses, encoder.state_dict()), path / f"{rank}.pt")


@pytest.mark.slow
def test_checkpointing_compilation_and_two_ranks_equal_eager_training(tmp_path):
    """With dropout, and hence the backward passes of ``dropout.py`` and ``local_window.py``. Compiled with the
    decompositions and the partitioner of PyTorch's compiler, but without its code generator, which takes minutes."""
    train_rank(tmp_path, "eager", is_combined=False)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=train_rank, args=(tmp_path, i, True)) for i in range(RANKS)]
    with torch._inductor.config.patch(fallback_random=True):  # compiled code draws the random numbers of eager code
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * RANKS
    losses, state = torch.load(tmp_path / "eager.pt")
    for i in range(RANKS):
        own_losses, own_state = torch.load(tmp_path / f"{i}.pt")
        assert own_losses == pytest.approx(losses[i::RANKS], abs=1e-5)
        for key, value in state.items():
            torch.testing.assert_close(own_state[key], value, rtol=0, atol=1e-5, msg=lambda m: f"{key}: {m}")
