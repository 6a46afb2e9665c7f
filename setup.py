"""Package definition; `scripts/setup.sh` installs the package with everything it uses.

fairseq itself (`fairseq-fixed`, fairseq 0.12 for current Python versions) is not a dependency, because it requires
torchaudio, which is not needed here. The script installs it with --no-deps; its other dependencies are listed below.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fairseq_linformer/__init__.py").read_text())[1]

FAIRSEQ_DEPENDENCIES = [
    "bitarray",
    "cffi",
    "hydra-core==1.3.2",
    "omegaconf==2.3.0",
    "packaging",
    "regex",
    "requests",
    "sacrebleu",
    "scikit-learn>=1.7",
    "scipy",
    "tqdm",
]

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
    install_requires=["torch>=2.9,<3", "numpy", *FAIRSEQ_DEPENDENCIES],
    extras_require={
        "text": ["sentencepiece", "tiktoken", "tokenizers", "datasets"],
        "curves": ["tensorboard", "matplotlib"],
        "onnx": ["onnx==1.23.2", "onnxscript==0.7.2", "onnxruntime==1.32.0"],
        "huggingface": ["transformers>=5,<6", "safetensors"],
        "benchmark": ["linformer", "linformer-pytorch", "transformers>=5,<6", "matplotlib"],
        "test": ["pytest", "pytest-xdist", "hypothesis", "accelerate", "sentence-transformers>=5,<7"],
        "lint": ["ruff==0.17.6", "mypy==2.4.1", "types-tqdm", "types-PyYAML"],
        "docs": ["mkdocs-material", "mkdocstrings[python]"],
    },
)
