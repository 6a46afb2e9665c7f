"""The authors' plugin, run in separate processes, because both plugins register the same names."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

import fairseq
import pytest
import torch

EXAMPLE = Path(fairseq.__file__).parent / "examples" / "linformer" / "linformer_src"
# Checkpoints contain a Namespace, which torch rejects without this.
_ALLOW = "import argparse, torch; torch.serialization.add_safe_globals([argparse.Namespace])\n"
_TRAIN = _ALLOW + "import sys; from fairseq_cli.train import cli_main; sys.argv[0] = 'fairseq-train'; cli_main()"
_FEATURES = (
    _ALLOW
    + """
import sys
from fairseq import checkpoint_utils, utils
checkpoint, example, tokens, out = sys.argv[1:]
utils.import_user_module(argparse.Namespace(user_dir=example))
models, _, _ = checkpoint_utils.load_model_ensemble_and_task([checkpoint])
batches = torch.load(tokens)
with torch.no_grad():
    results = [[models[0].eval()(batch, features_only=True)[0], models[0](batch)[0]] for batch in batches]
torch.save(results, out)
"""
)


def skip_without_plugin() -> None:
    if not EXAMPLE.exists():
        pytest.skip("this fairseq has no examples/linformer")


# Importing fairseq takes longer than the tests: one process imports it, and forks the others.
_COPIES = """
import json, os, sys, traceback
import fairseq_cli.train
for line in sys.stdin:
    code, *arguments = json.loads(line)
    copy = os.fork()
    if copy == 0:
        status = 1
        try:
            sys.argv[1:] = arguments
            exec(code, {"__name__": "__main__"})
            status = 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
"""


@cache
def _copies():
    said = TemporaryFile("w+")
    return subprocess.Popen(
        [sys.executable, "-c", _COPIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
    ), said


def _run(code, *arguments) -> None:
    process, said = _copies()
    process.stdin.write(json.dumps([code, *map(str, arguments)]) + "\n")
    process.stdin.flush()
    status = next((line for line in process.stdout if line.startswith("ended")), "the process itself ended")
    said.seek(0)
    assert status == "ended 0\n", status + said.read()[-3000:]


def train(data, save_dir, *options, updates=3) -> Path:
    """Train a checkpoint of the authors' plugin for a few updates."""
    words = ["--disable-validation", "--data-buffer-size", 0, "--save-dir", save_dir, "--max-update", updates]
    _run(_TRAIN, data, "--user-dir", EXAMPLE, *options, *words)
    return Path(save_dir) / "checkpoint_last.pt"


def extract_features(checkpoint, batches, folder):
    """Features and logits of their model, for each batch of tokens."""
    torch.save(batches, folder / "tokens.pt")
    _run(_FEATURES, checkpoint, EXAMPLE, folder / "tokens.pt", folder / "features.pt")
    return torch.load(folder / "features.pt")


def convert_to_version_1(source: Path, target: Path) -> Path:
    """The checkpoint as their first version would have saved it: no version; with layerwise sharing each layer
    has a matrix of its own, for keys and values, under the name of the shared one too; output embeddings are
    apart from the input's."""
    checkpoint = torch.load(source, weights_only=True)
    state = {key: value for key, value in checkpoint["model"].items() if not key.endswith(".version")}
    layerwise = checkpoint["cfg"]["model"].shared_layer_kv_compressed
    generator = torch.Generator().manual_seed(0)
    for key in list(state):
        if key.endswith("compress_k.weight"):
            state[key] = 0.05 * torch.randn(state[key].shape, generator=generator)
            if layerwise:
                prefix = key.removesuffix("self_attn.compress_k.weight")
                state[prefix + "shared_compress_layer.weight"] = state[key]
                state[prefix + "shared_compress_layer.bias"] = torch.zeros(len(state[key]))
                if prefix + "self_attn.compress_v.weight" in state:
                    state[prefix + "self_attn.compress_v.weight"] = state[key]
    state["encoder.lm_head.weight"] = state["encoder.lm_head.weight"] + 0.1
    torch.save({**checkpoint, "model": state}, target)
    return target
