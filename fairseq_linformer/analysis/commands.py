"""``analyze spectrum`` and ``analyze attention``: measure a model on a text, and write files."""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from ..files import check_new_folder
from .attention_model import AttentionModel, projection_matrices
from .figures import draw_maps, draw_spectra
from .sentences import Sentences
from .spectrum import STATE, accumulate_spectra
from .spectrum_result import FIGURE, Spectrum

TEMPORARY_FILES = re.compile(r"\.(state\.npz|spectrum\.(npz|json|png))\.[0-9a-f]{8}")
"""Names of the temporary files of ``files.open_atomic``, which a killed run leaves."""


def resolve_length(model: AttentionModel, length: int | None) -> int:
    """n: ``length``, or the model's maximum input length for None.

    Raises:
        ValueError: the length is below 3 or above the model's maximum.
    """
    if length is not None and not 3 <= length <= model.n:
        raise ValueError(
            f"tokens_per_sample must be between 3 and {model.n}, the maximum of {model.name}, got {length}"
        )
    return model.n if length is None else length


def analyze_spectrum(
    model: AttentionModel,
    texts: Sentences,
    out: Path,
    sentences: int,
    index: int | None = None,
    batch: int = 1,
    check: int = 4,
) -> Spectrum:
    """Measure the spectrum and write ``spectrum.npz``, ``.json`` and ``.png`` to ``out``; call again to resume.

    Args:
        out: a new or empty folder, or that of an interrupted run.
        sentences, batch, check: as for ``accumulate_spectra``.
        index: 1-based index of the singular value in the heat map; None for a quarter of them, like the paper's 128
            of 512.

    Raises:
        ValueError: as for ``accumulate_spectra``; the index is out of range; ``out`` has other files.
        OSError: ``out`` cannot be written.
    """
    for name, value, least in (("num_sentences", sentences, 1), ("batch_size", batch, 1), ("num_checked", check, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    _check_no_local_window(model)
    r = min(texts.n, max(shape[-1] for shape in model.map_shapes(texts.n)))
    index = max(1, r // 4) if index is None else index
    if not 1 <= index <= r:
        raise ValueError(
            f"index must be between 1 and {r}, the number of singular values at n = {texts.n}, got {index}"
        )
    out = Path(out)
    with lock_folder(out):
        key = {
            "model": model.identity,
            "texts": texts.identity(),
            "n": texts.n,
            "break_mode": texts.break_mode,
            "short": texts.short,
        }
        sums = accumulate_spectra(model, texts, sentences, out / STATE, key, batch, check)
        matrices = projection_matrices(model.encoder) if model.encoder is not None and model.kind == "linformer" else {}
        projections = {name: torch.linalg.svdvals(matrix.double()).cpu().numpy() for name, matrix in matrices.items()}
        facts = {
            "model": model.short_name,
            "text": texts.short_name,
            "kind": model.kind,
            "layers": model.layers,
            "heads": model.heads,
            "n": texts.n,
            "matrix_columns": model.n,
            "index": index,
            "sentences": sums.sentences,
            "sentences_requested": sentences,
            "texts": asdict(texts.counts),
            "short_sentences": "skipped" if texts.short == "skip" else "padded",
            "float64_checked_sentences": sums.checked,
            "float64_difference": sums.difference,
            "seconds": round(sums.seconds, 1),
            "device": str(model.device),
            "torch_threads": torch.get_num_threads(),
            "key": key,
        }
        spectrum = Spectrum.from_sums(sums, projections, facts)
        spectrum.write(out)
        draw_spectra(out / FIGURE, [spectrum])
    return spectrum


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock a folder that is new, empty or of an interrupted run, and delete the temporary files of a killed run.

    Raises:
        ValueError: the folder has other files, or another process has locked it.
        OSError: the folder cannot be created or written.
    """
    if not (out / STATE).exists():
        check_new_folder(out, ignore=TEMPORARY_FILES)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in out.iterdir():
            if TEMPORARY_FILES.fullmatch(path.name):
                path.unlink()
        yield
    except BlockingIOError:
        raise ValueError(f"{out} is locked by another process; wait for it, or choose another folder") from None
    finally:
        os.close(descriptor)
        if is_new and not any(out.iterdir()):  # the measurement failed before its first result
            out.rmdir()


def draw_attention(model: AttentionModel, texts: Sentences, numbers: Sequence[int], out: Path) -> list[Path]:
    """Draw the attention maps of sentences, all layers and heads, to ``out/sentence-N.png``.

    Args:
        numbers: sentence numbers, counted from 1; skipped sentences do not count.
        out: folder, created if missing.

    Raises:
        ValueError: a number is below 1 or above the number of sentences, a file exists, or the model has a local
            window.
        OSError: ``out`` cannot be written.
    """
    _check_no_local_window(model)
    if not numbers or min(numbers) < 1:
        raise ValueError(f"sentence numbers must be at least 1, got {list(numbers)}")
    paths = {number: Path(out) / f"sentence-{number}.png" for number in sorted(set(numbers))}
    for path in paths.values():
        if path.exists():
            raise ValueError(f"{path} already exists; choose another folder or delete it")
    last = max(numbers)
    sentences = {number: sentence for number, sentence in enumerate(islice(texts, last), start=1) if number in paths}
    if last not in sentences:
        raise ValueError(
            f"sentence number must be at most {texts.counts.sentences}, the number of sentences, got {last}"
        )
    for number, sentence in sentences.items():
        maps: list[np.ndarray] = []
        model.read_maps(torch.tensor([sentence]), partial(_append_map, maps))
        if not all(np.isfinite(map_).all() for map_ in maps):
            raise ValueError(f"the attention of {model.name} is NaN or infinite; its weights are damaged")
        words = model.tokenizer.convert_ids_to_tokens(sentence)
        draw_maps(
            paths[number],
            maps,
            words,
            f"{model.short_name} on {texts.short_name}, sentence {number}: {len(sentence)} tokens",
            is_projected=model.kind == "linformer",
        )
    return list(paths.values())


def _check_no_local_window(model: AttentionModel) -> None:
    if model.encoder is not None and (W := model.encoder.config.local_window):
        raise ValueError(f"local_window must be 0, since neighbors are not columns of a map, got {W}")


def _append_map(maps: list[np.ndarray], layer: int, weights: torch.Tensor) -> None:
    maps.append(weights[0].float().cpu().numpy())
