"""fairseq's own commands, run in this process, and data for them."""

import importlib
import os
import re
import socket
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, indexed_dataset
from fairseq.logging import metrics, progress_bar
from hydra.core.global_hydra import GlobalHydra

import fairseq_linformer.models  # noqa: F401  (--user-dir skips a package that is imported already)

PLUGIN = str(Path(__file__).parent.parent / "fairseq_linformer")
CONFIGS = Path(__file__).parent.parent / "configs"
WORDS = 40

# A model small enough for a test: 2 layers, 16 wide, n = 16, k = 8.
TINY = """
    --arch linformer_roberta_tiny --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 2
    --projected-dim 8
""".split()
OPTIMIZATION = "--batch-size 8 --optimizer adam --lr 0.01 --lr-scheduler fixed --cpu --num-workers 0".split()
TRAIN = [
    *"--task masked_lm --criterion masked_lm --tokens-per-sample 16".split(),
    *OPTIMIZATION,
    *"--seed 7 --log-format json --log-interval 1".split(),
]
CLASSIFY = [
    *"--task sentence_prediction --criterion sentence_prediction".split(),
    *"--num-classes 2 --init-token 0 --max-positions 16".split(),
    *OPTIMIZATION,
]


def command(module: str, *args) -> None:
    """Run ``fairseq_cli.MODULE`` with these arguments, as the console script does."""
    # Global state of an earlier run.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    progress_bar._tensorboard_writers.clear()
    cli = importlib.import_module(f"fairseq_cli.{module}")
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(sys, "argv", [f"fairseq-{module}", *map(str, args)]))
        if hasattr(cli, "reset_logging"):  # it would remove pytest's log handler
            patches.enter_context(mock.patch.object(cli, "reset_logging"))
        cli.cli_main()


@contextmanager
def losses_of_updates():
    """A list that receives the unrounded loss of every update in the block, in bits."""
    losses, log_scalar = [], metrics.log_scalar

    def remember(key, value, *args, **kwargs):
        if key == "loss":
            losses.append(float(value))
        return log_scalar(key, value, *args, **kwargs)

    with mock.patch.object(metrics, "log_scalar", remember):
        yield losses


def train(data, save_dir, *options, model=TINY, updates=4, validation=False):
    """``fairseq-train`` with the plugin; later options win. Returns the loss of each update."""
    with losses_of_updates() as losses:
        command(
            "train",
            data,
            "--user-dir",
            PLUGIN,
            *TRAIN,
            *([] if validation else ["--disable-validation"]),
            *model,
            "--save-dir",
            save_dir,
            "--max-update",
            updates,
            *options,
        )
    return losses


def finetune(data, save_dir, *options, updates=2):
    """``fairseq-train`` of a classifier with the plugin; the architecture is among the options."""
    words = [*CLASSIFY, "--shorten-method", "truncate", "--disable-validation", "--max-update", updates]
    command("train", data, "--user-dir", PLUGIN, *words, "--save-dir", save_dir, *options)


def hydra_train(data, save_dir, *overrides, config="base", group="pretrain"):
    """``fairseq-hydra-train`` with a YAML of configs/. Returns the loss of each update."""
    with losses_of_updates() as losses:
        try:
            command(
                "hydra_train",
                "--config-dir",
                CONFIGS / group,
                "--config-name",
                config,
                f"task.data={data}",
                f"common.user_dir={PLUGIN}",
                f"checkpoint.save_dir={save_dir}",
                f"hydra.run.dir={save_dir}/hydra",
                "dataset.disable_validation=true",
                *overrides,
            )
        finally:
            GlobalHydra.instance().clear()
    return losses


# The optimizer of configs/pretrain/base.yaml, as flags.
BASE_ADAM = ["--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.01"]


def load(save_dir, name="checkpoint_last.pt"):
    """Load a checkpoint weights-only."""
    return torch.load(os.path.join(save_dir, name), map_location="cpu", weights_only=True)


def same_bits(one, other) -> bool:
    """Whether the last checkpoints in two folders have equal parameters and moments of Adam."""
    ours, theirs = load(one), load(other)
    moments = [checkpoint["last_optimizer_state"]["state"] for checkpoint in (ours, theirs)]
    assert ours["model"].keys() == theirs["model"].keys() and len(moments[0]) == len(moments[1]) > 0
    return all(torch.equal(value, theirs["model"][key]) for key, value in ours["model"].items()) and all(
        torch.equal(moments[0][i][name], moments[1][i][name]) for i in moments[0] for name in ("exp_avg", "exp_avg_sq")
    )


def load_model(path, **overrides):
    """The model of a checkpoint, loaded by fairseq, with some of its options changed."""
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
    return model.eval()


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def write_dataset(folder: Path, split: str, lines, vocab_size: int) -> None:
    """Write ``lines`` of token IDs in fairseq's mmap format."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(str(folder / f"{split}.bin"), "mmap", vocab_size=vocab_size)
    for line in lines:
        builder.add_item(torch.tensor(line))
    builder.finalize(str(folder / f"{split}.idx"))


def write_dictionary(path: Path, words: int) -> Dictionary:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"w{i} {words - i}\n" for i in range(words)))
    return Dictionary.load(str(path))


def masked_lm_data(folder: Path, words: int = WORDS, sentences: int = 200) -> str:
    """Write data for ``--task masked_lm``: sentences in which each word determines the next."""
    dictionary = write_dictionary(folder / "dict.txt", words)
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", sentences), ("valid", 20)):
        lines = []
        for _ in range(count):
            word, length = torch.randint(0, words, (2,), generator=generator).tolist()
            line = [(word + 3 * i) % words + dictionary.nspecial for i in range(5 + length % 20)]
            lines.append([*line, dictionary.eos()])
        write_dataset(folder, split, lines, len(dictionary))
    return str(folder)


def classification_data(folder: Path, words: int = WORDS) -> str:
    """Write data for ``--task sentence_prediction``: whether a sentence of even words has odd ones."""
    dictionary = write_dictionary(folder / "input0" / "dict.txt", words)
    labels = Dictionary()
    for label in ("no", "yes"):
        labels.add_symbol(label)
    (folder / "label").mkdir(exist_ok=True)
    labels.save(str(folder / "label" / "dict.txt"))
    generator = torch.Generator().manual_seed(1)
    for split, count in (("train", 120), ("valid", 40)):
        lines, targets = [], []
        for i in range(count):
            line = 2 * torch.randint(0, words // 2, (2 + i % 9,), generator=generator)
            odd = i % 2
            line[torch.randperm(len(line), generator=generator)[: 1 + len(line) // 2]] += odd
            lines.append([*(line + dictionary.nspecial).tolist(), dictionary.eos()])
            targets.append([labels.nspecial + odd, labels.eos()])
        write_dataset(folder / "input0", split, lines, len(dictionary))
        write_dataset(folder / "label", split, targets, len(labels))
    return str(folder)


def last_number(text: str, key: str) -> float:
    """The last value of ``key`` in fairseq's JSON log lines."""
    return float(re.findall(rf'"{key}": "([^"]+)"', text)[-1])
