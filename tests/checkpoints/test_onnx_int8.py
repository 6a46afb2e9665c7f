"""int8 graphs: arithmetic of small graphs by hand, and logits that do not depend on the batch."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")

import onnx_ir as ir  # noqa: E402
import onnxruntime  # noqa: E402

from fairseq_linformer.checkpoints import onnx_graph  # noqa: E402
from fairseq_linformer.checkpoints.export_onnx import export_onnx  # noqa: E402
from fairseq_linformer.checkpoints.onnx_int8 import quantize_  # noqa: E402

from .onnx_models import build_model, open_graph, run_graph  # noqa: E402


def build_graph(operator, inputs, weight, name="weight"):
    """The quantized graph of an operator with the inputs ``weight`` and ``x``, in the order of ``inputs``."""
    dtype = onnx.TensorProto.INT64 if operator == "Gather" else onnx.TensorProto.FLOAT
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(operator, [{"weight": name}.get(each, each) for each in inputs], ["y"])],
            "graph",
            [onnx.helper.make_tensor_value_info("x", dtype, None)],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(np.asarray(weight, np.float32), name)],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 20)],
        ir_version=10,
    )
    quantized = ir.from_proto(model)
    quantize_(quantized)
    return ir.to_proto(quantized)


def run(model, x) -> np.ndarray:
    (result,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    return result


def stored_types(model) -> set[int]:
    return {each.data_type for each in model.graph.initializer if np.prod(each.dims) > 5}


def test_linear_layer():
    """Tokens of very different sizes, and one of zeros, each with its own scale; columns of the weight too."""
    weight = [[64.0, 0.5], [-1.0, -32.0], [3.0, 0.0]]  # scales 1 and 1/2
    graph = build_graph("MatMul", ("x", "weight"), weight)
    tokens = np.array([[127, -1, 2], [1270000, 20000, 10000], [0, 0, 0], [0.0127, 0, -0.0127]], np.float32)
    np.testing.assert_allclose(run(graph, tokens[None])[0], tokens @ np.array(weight, np.float32), rtol=1e-6)
    assert stored_types(graph) == {onnx.TensorProto.INT8}
    # 1.4 of 127 steps is rounded to 1.
    assert run(graph, np.array([[[127, 1.4, 0]]], np.float32)) == pytest.approx(
        np.array([[[127 * 64 - 1, 127 / 2 - 32]]])
    )


def test_largest_products_do_not_saturate():
    """Sums of pairs of the largest products exceed 16 bits if the weights have 8."""
    graph = build_graph("MatMul", ("x", "weight"), np.full((64, 32), 2.0))
    np.testing.assert_allclose(run(graph, np.full((1, 3, 64), 5.0, np.float32)), np.full((1, 3, 32), 640.0), rtol=1e-6)


def test_embeddings():
    """A scale per row."""
    table = np.array([[127.0, -3, 1], [0, 0, 0], [0.127, 0.001, -0.05]])
    graph = build_graph("Gather", ("weight", "x"), table)
    np.testing.assert_allclose(run(graph, np.array([[2, 0], [1, 2]])), table[[[2, 0], [1, 2]]], rtol=1e-6)
    assert stored_types(graph) == {onnx.TensorProto.INT8}


@pytest.mark.parametrize("shape", [(2, 4), (3, 2, 4)])
def test_projections(shape):
    """E of all heads, and of each; rows have scales 1 and 10 in every head."""
    E = np.random.default_rng(0).integers(-127, 128, shape).astype(np.float32)
    E[..., 0] = 127
    E *= np.array([[1.0], [10.0]], np.float32)
    graph = build_graph("MatMul", ("weight", "x"), E, "layer.E.weight")
    x = np.eye(4, dtype=np.float32) + np.zeros((*shape[:-2], 1, 1), np.float32)
    np.testing.assert_allclose(run(graph, x), E, rtol=1e-6)
    assert stored_types(graph) == {onnx.TensorProto.INT8}


REVIEWS = """\
a moving and honest film that never asks for tears
the plot is thin , the jokes are thinner , and the running time is not
it works
one of the year 's most quietly affecting family dramas , carried by two wonderful performances
all noise and no suspense , this sequel piles one chase on top of another and still feels twice as long as it is
dull
there is not a single frame of this film that looks as if anyone had cared about what was in it
warm , funny and surprisingly sharp about money , marriage and growing old in a town that everybody else has left
""".splitlines()


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """A classifier of ``REVIEWS``, its folder, and token IDs of 32 sentences."""
    words = sorted({word for review in REVIEWS for word in review.split()})
    sentences = [[0, *(4 + words.index(word) for word in review.split()), 2] for review in REVIEWS]
    sentences += [[0, *reversed(each[i:-1]), 2] for i in (1, 2, 3) for each in sentences]
    assert len(sentences) == 32
    shape = dict(vocab_size=500, embed_dim=64, ffn_embed_dim=256, max_positions=32)
    model = build_model(**shape, local_window=4)
    folder = tmp_path_factory.mktemp("int8")
    model.save_pretrained(folder / "model")
    export_onnx(folder / "model", folder / "int8", int8=True)
    return model, folder / "int8", sentences


@pytest.mark.slow
def test_weights_have_8_bits(quantized):
    """E and F, linear layers and embeddings; the graph has no paths of this machine."""
    model, folder, _ = quantized
    graph = folder / "onnx/model_quantized.onnx"
    assert str(Path(onnx_graph.__file__).parent).encode() not in graph.read_bytes()
    types = defaultdict(set)
    for weight in onnx.load(graph).graph.initializer:
        types[tuple(weight.dims)].add(weight.data_type)
    assert types[(16, 32)] == {onnx.TensorProto.INT8, onnx.TensorProto.FLOAT}  # E and F; which tokens windows read
    assert types[(64, 256)] == {onnx.TensorProto.INT8} and types[(500, 64)] == {onnx.TensorProto.INT8}
    tokens = torch.randint(4, 45, (4, 30))
    rounded = run_graph(open_graph(folder), tokens, torch.ones_like(tokens))
    with torch.no_grad():
        exact = model(tokens).logits
    assert 0 < (exact - rounded).abs().max() < 0.1 * exact.abs().max()
    assert "| weights of the graph | int8" in (folder / "README.md").read_text()


@pytest.mark.slow
def test_logits_do_not_depend_on_the_batch(quantized):
    """The same sentences alone and in a padded batch of 32: a scale of the whole batch would move logits."""
    _, folder, sentences = quantized
    session = open_graph(folder)
    tokens = torch.full((32, max(map(len, sentences))), 1)
    for row, sentence in zip(tokens, sentences):
        row[: len(sentence)] = torch.tensor(sentence)
    together = run_graph(session, tokens, tokens.ne(1).long()).softmax(1)
    alone = torch.cat(
        [run_graph(session, torch.tensor([each]), torch.ones(1, len(each), dtype=torch.long)) for each in sentences]
    ).softmax(1)
    assert together[:, 0].std() > 0.02
    assert torch.equal(together.argmax(1), alone.argmax(1))
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
