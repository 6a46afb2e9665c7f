"""``Linformer`` for vectors, without fairseq."""

import math
import subprocess
import sys

import pytest
import torch

from fairseq_linformer import Linformer
from fairseq_linformer.modules import length_groups
from fairseq_linformer.modules.reference import encode_vectors

LENGTHS = (12, 3, 7)
MASK = torch.arange(12) < torch.tensor(LENGTHS).unsqueeze(1)


def build(**options):
    torch.manual_seed(0)
    options = {"k": None if options.get("projection") == "none" else 4, **options}
    model = Linformer(dim=8, n=12, layers=2, heads=2, **options).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("group_positions", [1, 64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(sharing="layerwise", normalize_before=True),
        dict(sharing="none", local_window=2, projection_init="graded"),
        dict(sharing="key-value", local_window=2, projection_init="normal"),
        dict(projection="conv", sharing="none"),
        dict(projection="max-pool", sharing="none", k=[[2, 5], 4]),
        dict(projection="none"),
    ],
    ids=str,
)
def test_it_equals_the_reference(options, group_positions, monkeypatch):
    """Each sequence of a padded batch has the features, and gradients, that it has by itself in the reference, whatever
    stands at padding, and the other sequences."""
    monkeypatch.setattr(length_groups, "GROUP_POSITIONS", group_positions)
    model, x = build(**options), torch.randn(3, 12, 8, dtype=torch.float64)
    x = x.masked_fill(~MASK.unsqueeze(-1), 1e3).requires_grad_()
    weights = torch.randn_like(x)
    tensors = [x, *model.parameters()]
    features = model(x, MASK)
    expected = [encode_vectors(model, row[:length]) for row, length in zip(x, LENGTHS)]
    loss = 0
    for row, right, weight, length in zip(features, expected, weights, LENGTHS):
        torch.testing.assert_close(row[:length], right, rtol=0, atol=1e-9)
        loss = loss + (right * weight[:length]).sum()
    right = torch.autograd.grad(loss, tensors)
    ours = torch.autograd.grad((features * weights)[MASK].sum(), tensors)
    assert not ours[0][~MASK].any()
    for a, b in zip(ours, right):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_masks():
    """None and True everywhere are the same; ones and zeros are a mask, too."""
    model, x = build(), torch.randn(3, 12, 8, dtype=torch.float64)
    assert torch.equal(model(x), model(x, torch.ones(3, 12, dtype=torch.bool)))
    assert torch.equal(model(x, MASK), model(x, MASK.long()))


@pytest.mark.parametrize("options", [{}, dict(local_window=2), dict(projection="none")], ids=str)
def test_padding_in_front_shifts_nothing(options):
    model, x = build(**options), torch.randn(3, 12, 8, dtype=torch.float64)
    shifted = torch.stack([row.roll(12 - length, 0) for row, length in zip(x, LENGTHS)])
    torch.testing.assert_close(model(shifted, MASK.flip(1))[MASK.flip(1)], model(x, MASK)[MASK], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, dict(local_window=2), dict(projection="none")], ids=str)
def test_a_sequence_of_padding_only_disturbs_no_gradient(options):
    model, x = build(**options).train(), torch.randn(2, 12, 8, dtype=torch.float64)
    features = model(x, torch.tensor([[True], [False]]).expand(2, 12))
    features[0].sum().backward()
    assert features.isfinite().all() and all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("options", [{}, dict(local_window=2), dict(projection="none")], ids=str)
@pytest.mark.parametrize("mask", [MASK, MASK.flip(1)], ids=["after", "before"])
def test_nan_at_padding_has_no_effect(options, mask):
    model, x = build(**options), torch.randn(3, 12, 8, dtype=torch.float64)
    found = []
    for fill in (0.0, math.nan):
        model.zero_grad()
        features = model(x.masked_fill(~mask.unsqueeze(-1), fill), mask)[mask]
        features.square().sum().backward()
        found.append([features, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found))


def test_rejections():
    with pytest.raises(ValueError, match="at most 12 positions.* got 13"):
        build()(torch.zeros(1, 13, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"\(batch, length\) = \(2, 10\), got"):  # these are lengths, not a mask
        build()(torch.zeros(2, 10, 8, dtype=torch.float64), torch.tensor([10, 5]))
    with pytest.raises(ValueError, match=r"projected_dim must be between 1 and max_positions \(12\), got 256"):
        Linformer(dim=8, n=12, layers=2, heads=2)


@pytest.mark.slow
def test_an_exported_graph_takes_any_length_from_2():
    model, sizes = build(), {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC(max=12)}
    example = torch.randn(3, 11, 8, dtype=torch.float64), torch.ones(3, 11, dtype=torch.bool)
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # else not n, where E has no columns to cut
        exported = torch.export.export(
            model,
            example,
            dynamic_shapes=(sizes, sizes),
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        ).module()
    for n in (12, 7, 2):
        x, mask = torch.randn(2, n, 8, dtype=torch.float64), MASK[1:, :n].clone()
        torch.testing.assert_close(exported(x, mask)[mask], model(x, mask)[mask])


def test_importing_the_package_does_not_import_torch():
    code = "import sys, fairseq_linformer; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
