"""Dynamic int8 quantization of an ONNX graph by ``onnxruntime``.

Weights of linear layers and embeddings are stored in 8 bits, and activations are quantized at run time, per batch.
Learned E and F, which multiply activations from the left and which ``onnxruntime`` would leave as they are, are stored
in 8 bits with a scale per row, and multiply in single precision. With ``sharing none`` this halves the file. Norms,
softmax, biases and the classification head stay in single precision.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import only_errors

PROJECTION = re.compile(r"\.[EF](\.heads\.\d+)?\.weight$")
"""Name of a learned E or F, of a layer or of a head with its own k."""


def quantize(source: Path, target: Path, external: bool) -> None:
    """Write the quantized graph of ``source`` as ``target``.

    Args:
        external: write the weights to a file of their own.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    _round_projections(model.graph)
    weights = {each.name for each in model.graph.initializer if len(each.dims) == 2}
    with only_errors():  # it warns that shapes were not inferred, which dynamic quantization does not need
        quantize_dynamic(
            model,
            target,
            op_types_to_quantize=["MatMul", "Gather"],
            # Linear layers and embeddings, not the sizes of windows.
            nodes_to_quantize=[node.name for node in model.graph.node if weights.intersection(node.input[:2])],
            per_channel=True,
            # 7 bits: without VNNI, products of two 8-bit numbers saturate in the 16-bit sums of x86.
            reduce_range=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=external,
            extra_options={"MatMulConstBOnly": True},
        )


def _round_projections(graph: Any) -> None:
    """Store E and F, (k, n) or (h, k, n), in 8 bits, with a scale per row that all heads share."""
    from onnx import helper, numpy_helper

    for weight in [each for each in graph.initializer if PROJECTION.search(each.name)]:
        exact = numpy_helper.to_array(weight)
        axis = exact.ndim - 2
        scale = np.abs(exact).max(axis=tuple(i for i in range(exact.ndim) if i != axis)) / 127
        scale = np.where(scale > 0, scale, 1).astype(np.float32)  # a row of zeros
        rounded = np.rint(exact / scale[:, None]).astype(np.int8)
        names = [f"{weight.name}_{suffix}" for suffix in ("quantized", "scale", "zero_point")]
        for name, values in zip(names, (rounded, scale, np.zeros(len(scale), np.int8))):
            graph.initializer.append(numpy_helper.from_array(values, name))
        graph.node.insert(
            0, helper.make_node("DequantizeLinear", names, [weight.name], f"{weight.name}_round", axis=axis)
        )
        graph.initializer.remove(weight)
