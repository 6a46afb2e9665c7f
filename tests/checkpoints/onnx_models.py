"""Tiny models and their ONNX graphs. The tests of ONNX need the extra ``onnx``."""

import math
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import torch

from fairseq_linformer.checkpoints.identify import find_graph
from fairseq_linformer.huggingface import LinformerForMaskedLM, LinformerForSequenceClassification

from ..huggingface.test_parity import noisy

N, VOCABULARY = 64, 45


def build_model(model_class=LinformerForSequenceClassification, seed=0, **options):
    """A model of one layer in which every weight matters."""
    sizes = dict(vocab_size=VOCABULARY, max_positions=N, projected_dim=16, layers=1, local_window=0)
    return noisy(model_class, seed, **{**sizes, **options})


def build_masked_lm(**options):
    return build_model(LinformerForMaskedLM, **options)


def random_batches(longest=N, seed=0):
    """Batches of one to five sentences of 1 to ``longest`` tokens, with padding; tokens and mask."""
    generator = torch.Generator().manual_seed(seed)
    for batch, length in ((1, 1), (1, 2), (3, 7), (5, 33), (2, longest - 1), (2, longest), (1, longest)):
        tokens = torch.randint(4, VOCABULARY, (batch, length), generator=generator)
        lengths = torch.randint(1, length + 1, (batch, 1), generator=generator)
        lengths[0] = length
        yield tokens, (torch.arange(length) < lengths).long()


def open_graph(folder, **options):
    """An ``onnxruntime`` session of one thread."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    for name, value in options.items():
        setattr(settings, name, value)
    return onnxruntime.InferenceSession(str(find_graph(folder)), settings)


def run_graph(session, tokens, mask) -> torch.Tensor:
    (output,) = session.run(None, {"input_ids": np.asarray(tokens), "attention_mask": np.asarray(mask)})
    return torch.from_numpy(output)


def logits_of(model, tokens, mask):
    return model(tokens, attention_mask=mask).logits


def largest_difference(session, model, longest=N, run=logits_of) -> float:
    """Of the output of the graph and of PyTorch, at real tokens of random batches."""
    worst = 0.0
    for tokens, mask in random_batches(longest):
        with torch.no_grad():
            expected = run(model, tokens, mask)
        actual = run_graph(session, tokens, mask)
        assert actual.shape == expected.shape
        difference = (actual - expected).abs()
        worst = max(worst, float((difference[mask.bool()] if difference.dim() == 3 else difference).max()))
    return worst


def count_products(events) -> int:
    """Multiplications of the matrix products in a profile of ``onnxruntime``, from the shapes of each node."""
    total = 0
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") == "Node" and arguments.get("op_name") in ("MatMul", "Gemm", "FusedMatMul"):
            inputs, outputs = (
                [next(iter(entry.values())) for entry in arguments[f"{name}_type_shape"]]
                for name in ("input", "output")
            )
            total += math.prod(outputs[0]) * inputs[0][-1]
    return total


BLOCKER = "import sys; sys.modules.update(dict.fromkeys(('torch', 'fairseq', 'fairseq_linformer')))  # import fails\n"


def run_card(folder, cwd) -> str:
    """Run the lines of a model card where importing PyTorch, fairseq and this package fails."""
    card = (folder / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    script = cwd / "card.py"
    script.write_text(BLOCKER + code.replace("FOLDER", str(folder)))
    environment = {"PATH": "/usr/bin:/bin", "HF_HOME": str(cwd / "home"), "HF_HUB_OFFLINE": "1", "HOME": str(cwd)}
    run = subprocess.run([sys.executable, script], cwd=cwd, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip()
