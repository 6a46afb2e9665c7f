"""How to install a package that a command lacks: by an extra of ``setup.py``.

``pip`` finds the extras of this package in its installation, so they need not be on an index.
"""

NAME = "fairseq-linformer"
EXTRAS = {
    "text": "datasets huggingface_hub numpy pyarrow sentencepiece tiktoken tokenizers tqdm",
    "evaluate": "numpy pyarrow safetensors scipy sklearn transformers",
    "huggingface": "safetensors transformers",
    "onnx": "numpy onnx onnx_ir onnxruntime onnxscript",
    "curves": "matplotlib tensorboard",
    "fairseq": "bitarray cffi hydra numpy omegaconf packaging regex requests sacrebleu scipy sklearn tqdm",
}
"""The modules that each extra brings."""
TRAIN = ("fairseq", "text", "evaluate")
"""The extras in ``train``."""
_OF_COMMANDS = {"prepare": "text", "evaluate": "evaluate", "export": "huggingface"}
"""The extra that a command needs; others need ``train``."""
_FAIRSEQ = "pip install --no-build-isolation --no-deps fairseq-fixed==0.12.3.1"


def install_command(package: str, command: str) -> str:
    """A shell command that installs a package, and what else ``command`` needs."""
    if package == "fairseq":
        return f"pip install '{NAME}[train]' cython wheel 'setuptools<81' && {_FAIRSEQ}"
    modules = {extra: names.split() for extra, names in EXTRAS.items()}
    modules["train"] = [name for extra in TRAIN for name in modules[extra]]
    candidates = (_OF_COMMANDS.get(command, "train"), *modules)
    extra = next((extra for extra in candidates if package in modules[extra]), None)
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {package}"
