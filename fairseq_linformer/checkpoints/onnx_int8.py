"""Dynamic int8 quantization of an ONNX graph by ``onnxruntime``.

Weights of linear layers and embeddings are stored in 8 bits; activations are quantized at run time, per batch. E and F
are not weights of a linear layer but multiply activations from the left, and stay in single precision, as do norms,
softmax and the classification head. (Rounding E and F to 8 bits by row does not change the accuracy on SST-2, but they
are less than 5 % of the weights.)
"""

import logging
from pathlib import Path
from typing import Any


def quantize(source: Path, target: Path, external: bool) -> None:
    """Write the quantized graph of ``source`` as ``target``.

    Args:
        external: write the weights to a file of their own.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    nodes = _weighted_nodes(onnx.load(source, load_external_data=False).graph)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it warns that shapes were not inferred, which dynamic quantization does not need
    try:
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_quantize=nodes,
            # 7 bits: without VNNI, products of two 8-bit numbers saturate in the 16-bit sums of x86.
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=external,
            extra_options={"MatMulConstBOnly": True},
        )
    finally:
        root.setLevel(level)


def _weighted_nodes(graph: Any) -> list[str]:
    """Names of the linear layers and embeddings."""
    weights = {each.name for each in graph.initializer if len(each.dims) == 2}
    return [
        node.name
        for node in graph.node
        if (node.op_type == "MatMul" and node.input[1] in weights)
        or (node.op_type == "Gather" and node.input[0] in weights)
    ]
