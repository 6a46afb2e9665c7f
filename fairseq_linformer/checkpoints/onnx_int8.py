"""Dynamic int8 quantization of an ONNX graph, with a scale per token.

    x  activations, (..., d); W  weights of a linear layer, (d, m)
    X, x = X * s: 8-bit numbers and a scale per token, s = max |x| / 127
    V, W = V * t: 7-bit numbers and a scale per column, t = max |W| / 64
    x W = (X V) * s * t, where X V has products and sums of integers

Scales of ``quantize_dynamic`` of ``onnxruntime`` are those of a whole batch, so that logits would depend on the other
sentences and on padding. Those of a token, as in ZeroQuant (https://arxiv.org/abs/2206.01861), do not. Embeddings, E
and F are stored in 8 bits with a scale per row, and multiply in single precision. Norms, softmax, biases and the
classification head stay in single precision.
"""

import re
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveUnusedNodesPass
from onnxscript.rewriter.pattern import RewriteRule, RewriteRuleSet

PROJECTION = re.compile(r"\.[EF](\.heads\.\d+)?\.weight$")
"""Name of a learned E or F, of a layer or of a head with its own k."""
LARGEST = 127
LARGEST_FACTOR = 64
"""The largest weight of a linear layer. Without VNNI, x86 adds pairs of products in 16 bits: 2 * 64 * 255 < 2^15, but
not 2 * 127 * 255."""


def quantize_(model: ir.Model) -> None:
    """Quantize a graph in place."""
    _compute_in_double(model.graph)
    linear = RewriteRule(lambda op, x, weight: op.MatMul(x, weight), _quantize_linear, _is_matrix)
    embedding = RewriteRule(lambda op, weight, indices: op.Gather(weight, indices), _quantize_embedding, _is_matrix)
    RewriteRuleSet([linear, embedding]).apply_to_model(model)
    for weight in [value for name, value in model.graph.initializers.items() if PROJECTION.search(name)]:
        _quantize_projection(model.graph, weight)
    LiftConstantsToInitializersPass(size_limit=0)(model)
    RemoveUnusedNodesPass()(model)  # and the weights in single precision


def _quantize_linear(op: Any, x: Any, weight: ir.Value) -> Any:
    """A linear layer, without its bias."""
    values, scales = _round(weight, axis=0, largest=LARGEST_FACTOR)
    # Activations are unsigned, 128 is zero, since products of unsigned with signed numbers have fast instructions.
    step, zero = _constant(op, np.float32(1 / LARGEST)), _constant(op, np.uint8(128))
    last_axis, smallest = _constant(op, np.array([-1])), _constant(op, np.float32(1e-30))  # a token of zeros
    size = op.Max(op.ReduceMax(op.Abs(x), last_axis), smallest)
    rounded = op.QuantizeLinear(op.Div(x, size), step, zero)
    product = op.Cast(op.MatMulInteger(rounded, _constant(op, values), zero), to=ir.DataType.FLOAT)
    return op.Mul(op.Mul(product, _constant(op, scales[0] / np.float32(LARGEST))), size)


def _quantize_embedding(op: Any, weight: ir.Value, indices: Any) -> Any:
    """Rows of a table."""
    values, scales = _round(weight, axis=1)
    # The scales are a vector, since this rule would apply to a matrix again.
    row_scales = op.Unsqueeze(op.Gather(_constant(op, scales[:, 0]), indices), _constant(op, np.array([-1])))
    rows = op.Cast(op.Gather(_constant(op, values), indices), to=ir.DataType.FLOAT)
    return op.Mul(rows, row_scales)


def _compute_in_double(graph: ir.Graph) -> None:
    """Compute in double precision what would be rounded otherwise in another batch or with other padding.

    That is a logarithm, of which libraries compute the last few numbers of an array differently, and the tokens per
    window, a product with the mask, which has one row or many. A difference of 1e-7 may round an activation to another
    integer, which changes the following ones, and in the end probabilities by a hundredth.
    """
    for node in list(graph):
        cast = node.inputs[0].producer() if node.op_type == "MatMul" and node.inputs[0] else None
        if node.op_type == "Log" or (cast is not None and cast.op_type == "Cast"):
            for i, value in enumerate(node.inputs):
                to_double = ir.node("Cast", [value], {"to": ir.DataType.DOUBLE})
                graph.insert_before(node, to_double)
                node.replace_input_with(i, to_double.outputs[0])
            (output,) = node.outputs
            to_float = ir.node("Cast", [output], {"to": ir.DataType.FLOAT})
            output.replace_all_uses_with(to_float.outputs[0])
            to_float.replace_input_with(0, output)
            output.dtype = ir.DataType.DOUBLE
            graph.insert_after(node, to_float)


def _quantize_projection(graph: ir.Graph, weight: ir.Value) -> None:
    """Store E or F, (k, n) or (h, k, n), in 8 bits, with a scale per row that all heads share."""
    assert weight.const_value is not None
    row_axis = len(weight.const_value.shape) - 2
    values, scales = _round(weight, axis=(0, 2) if row_axis else 1)
    constants = [ir.node("Constant", [], {"value": ir.tensor(each)}) for each in (values, scales.ravel())]
    constants[0].outputs[0].name = f"{weight.name}_int8"
    exact = ir.node("DequantizeLinear", [each.outputs[0] for each in constants], {"axis": row_axis})
    weight.replace_all_uses_with(exact.outputs[0])
    graph.insert_before(graph[0], [*constants, exact])


def _constant(op: Any, values: Any) -> Any:
    return op.Constant(value=ir.tensor(values))


def _is_matrix(context: Any, weight: ir.Value, **_: Any) -> bool:
    """Whether the weight is a constant matrix in single precision."""
    values = weight.const_value
    return values is not None and values.dtype == ir.DataType.FLOAT and len(values.shape) == 2


def _round(weight: ir.Value, axis: int | tuple[int, ...], largest: int = LARGEST) -> tuple[np.ndarray, np.ndarray]:
    """Weights in 8 bits, and the scales that they share along an axis or axes, which have size 1."""
    assert weight.const_value is not None
    exact = weight.const_value.numpy()
    scales = np.abs(exact).max(axis=axis, keepdims=True) / np.float32(largest)
    scales = np.where(scales > 0, scales, np.float32(1))
    return np.rint(exact / scales).astype(np.int8), scales
