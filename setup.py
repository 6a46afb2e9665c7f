"""Package definition; `scripts/setup.sh` installs the package with everything it uses.

The plain module needs PyTorch alone; the extras say what else needs what. fairseq itself (`fairseq-fixed`, fairseq 0.12
for current Python versions) is not in them, because it requires torchaudio, which is not needed here. The script
installs it with --no-deps from `scripts/fairseq.txt`; its other dependencies are the extra `fairseq`.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fairseq_linformer/__init__.py").read_text())[1]

TRANSFORMERS = ["transformers>=5,<6", "safetensors"]
SCORES = ["scikit-learn>=1.7", "scipy"]
EXTRAS = {
    "fairseq": [
        "numpy",
        "bitarray",
        "cffi",
        "hydra-core>=1.3.2,<1.4",
        "omegaconf>=2.3,<2.4",
        "packaging",
        "regex",
        "requests",
        "sacrebleu",
        "tqdm",
        *SCORES,
    ],
    "text": ["datasets", "huggingface_hub", "pyarrow", "sentencepiece", "tiktoken", "tokenizers", "tqdm"],
    "evaluate": [*SCORES, *TRANSFORMERS, "pyarrow", "tqdm"],
    "huggingface": TRANSFORMERS,
    "onnx": [*TRANSFORMERS, "onnx>=1.20,<2", "onnx-ir>=0.1.14,<2", "onnxruntime>=1.23,<2", "onnxscript>=0.6,<0.8"],
    "curves": ["matplotlib", "tensorboard"],
}
EXTRAS["train"] = sorted({*EXTRAS["fairseq"], *EXTRAS["text"], *EXTRAS["evaluate"], *EXTRAS["curves"]})
EXTRAS["all"] = sorted({*EXTRAS["train"], *EXTRAS["onnx"]})

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
        "benchmark": ["linformer", "linformer-pytorch", *TRANSFORMERS, "matplotlib"],
        "test": ["pytest", "pytest-xdist", "hypothesis", "accelerate", "sentence-transformers>=5,<7"],
        "lint": ["ruff==0.17.6", "mypy==2.4.1", "types-tqdm", "types-PyYAML"],
        "docs": ["mkdocs-material", "mkdocstrings[python]"],
    },
)
