"""Small installations: the wheel with the packages of one extra, or with PyTorch alone."""

import re
import subprocess
from pathlib import Path

import pytest

from .linked_environment import install_wheel, make_environment, requirements_of_extra

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def torch_alone(wheel, tmp_path_factory):
    python = make_environment(tmp_path_factory.mktemp("alone") / "environment", requirements_of_extra(""))
    install_wheel(python, wheel)
    return python


def run(python, *words, folder):
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    return subprocess.run([python, *words], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_module_needs_pytorch_alone(torch_alone, tmp_path):
    (example,) = re.findall(r"```python\n([^`]*import Linformer\n[^`]*)```", (ROOT / "README.md").read_text())
    ended = run(torch_alone, "-c", example + "print(tuple(y.shape))", folder=tmp_path)
    assert ended.stdout == "(2, 1000, 512)\n", ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, package, extra",
    [
        ("evaluate model rows.csv", "numpy", "'.[evaluate]'"),
        ("prepare sst-2 out --tokenizer gpt2", "numpy", "'.[evaluate]'"),
        ("export model out", "safetensors", "'.[huggingface]'"),
        ("plan", "fairseq", "'.[train]' and then pip install"),
    ],
)
def test_a_missing_package_is_one_sentence(words, package, extra, torch_alone, tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\na,b\n")
    ended = run(torch_alone, "-W", "ignore", "-m", "fairseq_linformer.cli", *words.split(), folder=tmp_path)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    message = f"fairseq-linformer needs {package}, which is not installed; run: pip install {extra}"
    assert ended.stderr.splitlines()[-1].startswith(message), ended.stderr
