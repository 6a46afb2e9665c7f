"""fairseq-linformer: train, finetune, measure and take away a Linformer.

`scripts/setup.sh` installs all of it. fairseq itself (`fairseq-fixed`, fairseq 0.12 for
today's Python) is not named here: its metadata asks for torchaudio, which nothing here
needs, so the script installs it without its dependencies and these are listed below.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fairseq_linformer/__init__.py").read_text())[1]

FAIRSEQ_NEEDS = [
    "bitarray",
    "cffi",
    "hydra-core==1.3.2",
    "omegaconf==2.3.0",
    "packaging",
    "regex",
    "requests",
    "sacrebleu",
    "scikit-learn",
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
    packages=find_packages(include=["fairseq_linformer*"]),
    package_data={"fairseq_linformer.reproduction.report": ["style.css", "templates/*.j2"]},
    entry_points={"console_scripts": ["fairseq-linformer = fairseq_linformer.cli:main"]},
    install_requires=["torch==2.13.0", "numpy", "jinja2", "pydantic>=2,<3", *FAIRSEQ_NEEDS],
    extras_require={
        "text": ["sentencepiece", "tiktoken", "datasets"],
        "curves": ["tensorboard", "matplotlib"],
        "huggingface": ["transformers>=5,<6", "safetensors"],
        "benchmark": ["linformer", "linformer-pytorch", "transformers>=5,<6", "matplotlib"],
        "test": ["pytest", "pytest-xdist", "hypothesis", "accelerate"],
    },
)
