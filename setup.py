"""Package definition. The module alone needs PyTorch only; each extra adds what a part of the package uses.

fairseq itself (`fairseq-fixed`, fairseq 0.12 for current Python versions) is in no extra, because it requires
torchaudio, which is not needed here. `scripts/setup.sh` installs it with --no-deps, as `scripts/fairseq.txt` pins it;
the extra `fairseq` has its other dependencies.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fairseq_linformer/__init__.py").read_text())[1]

TRANSFORMERS = ["transformers>=5,<6", "safetensors"]
# onnxruntime 1.18 is the first that reads graphs of opset 20 and IR version 10, 1.26 the first that reads int8 graphs.
EXTRAS = {
    "fairseq": [
        *("numpy", "bitarray", "cffi", "hydra-core>=1.3.2,<1.4", "omegaconf>=2.3,<2.4", "packaging", "regex"),
        *("requests", "sacrebleu", "tqdm", "scipy", "scikit-learn>=1.7"),
    ],
    "text": [*("numpy", "sentencepiece", "tokenizers", "datasets", "pyarrow", "huggingface_hub", "tqdm")],
    "evaluate": ["numpy", "pyarrow", "scipy", *TRANSFORMERS],
    "huggingface": TRANSFORMERS,
    "onnx": ["numpy", "onnx>=1.23,<2", "onnx-ir>=1.1,<2", "onnxscript>=0.7.2,<0.8", "onnxruntime>=1.26,<2"],
    "curves": ["tensorboard", "matplotlib"],
}


def merge(*names):
    """The requirements of several extras."""
    return sorted({requirement for name in names for requirement in EXTRAS[name]})


setup(
    name="fairseq-linformer",
    version=VERSION,
    description="Linformer: self-attention with linear complexity, for fairseq",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11,<3.14",
    packages=[*find_packages(include=["fairseq_linformer*"]), "fairseq_linformer.configs", "fairseq_linformer.scripts"],
    package_dir={"fairseq_linformer.configs": "configs", "fairseq_linformer.scripts": "scripts"},
    package_data={
        "fairseq_linformer": ["py.typed"],
        "fairseq_linformer.configs": ["**/*.yaml"],
        "fairseq_linformer.scripts": ["torchrun.sh", "slurm/*"],
    },
    entry_points={"console_scripts": ["fairseq-linformer = fairseq_linformer.cli:main"]},
    # Tested: PyTorch 2.9.1, 2.13.0 and 2.14.1 with Python 3.11 on a CPU, 2.11.0 with Python 3.12 on an H100.
    install_requires=["torch>=2.9,<3"],
    extras_require={
        **EXTRAS,
        "train": merge("fairseq", "text", "evaluate"),
        "all": merge(*EXTRAS),
        "test": ["pytest", "pytest-xdist", "hypothesis", "accelerate", "peft", "sentence-transformers>=5,<7"],
        "lint": ["ruff==0.17.6", "mypy==2.4.1", "types-tqdm", "types-PyYAML"],
        "docs": ["mkdocs-material", "mkdocstrings[python]"],
    },
)
