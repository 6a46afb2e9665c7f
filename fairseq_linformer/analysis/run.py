"""``analyze spectrum`` and ``analyze attention``: from a model and texts to files."""

import fcntl
import os
import re
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

import numpy as np
import torch

from ..files import check_new_folder
from .attention_model import AttentionModel
from .figures import draw_maps, draw_spectra
from .heads import projection_matrices
from .result import FIGURE, Spectrum
from .spectrum import STATE, measure
from .texts import Sentences

HALF_WRITTEN = re.compile(r"\.(state\.npz|spectrum\.(npz|json|png))\.[0-9a-f]{8}")
"""Files that ``files.atomic`` had not finished."""


def length_of(model: AttentionModel, length: Optional[int]) -> int:
    """n: ``length``, or the longest input of the model for None.

    Raises:
        ValueError: the model takes no such length.
    """
    if length is not None and not 3 <= length <= model.n:
        raise ValueError(f"length is {length}; it must be from 3 to {model.n}, the longest input of {model.name}")
    return model.n if length is None else length


def spectrum(
    model: AttentionModel, texts: Sentences, out: Path, sentences: int, index: Optional[int] = None, batch: int = 1,
    check: int = 4,
) -> Spectrum:  # fmt: skip
    """Measure, and fill ``out`` with ``spectrum.npz``, ``.json`` and ``.png``; call it again to resume.

    Args:
        out: folder: new or empty, or one where the same was begun.
        sentences, batch, check: as for ``measure``.
        index: of the heat map, counted from 1; None for a quarter of the singular values, which is the paper's 128 of
            512.

    Raises:
        ValueError: as ``measure``; the index is not one of a singular value; ``out`` has something else in it.
        OSError: ``out`` cannot be written.
    """
    for name, value, least in (("sentences", sentences, 1), ("batch", batch, 1), ("check", check, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    r = min(texts.n, max(shape[-1] for shape in model.map_shapes(texts.n)))
    index = max(1, r // 4) if index is None else index
    if not 1 <= index <= r:
        raise ValueError(f"index is {index}; it must be from 1 to {r}, the singular values of a map at n = {texts.n}")
    out = Path(out)
    texts.check_apart(out)
    with alone_in(out):
        key = {"model": model.identity, "texts": texts.identity(), "n": texts.n, "cut": texts.cut, "short": texts.short}
        sums = measure(model, texts, sentences, out / STATE, key, batch, check)
        matrices = projection_matrices(model.encoder) if model.kind == "linformer" else {}
        values = {name: torch.linalg.svdvals(matrix.double()).cpu().numpy() for name, matrix in matrices.items()}
        facts = {
            "model": model.short_name, "text": texts.short_name, "kind": model.kind, "layers": model.layers,
            "heads": model.heads,
            "n": texts.n, "matrix_columns": model.n, "index": index, "sentences": sums.sentences,
            "sentences_asked": sentences,
            "texts": asdict(texts.counts), "short_sentences": "skipped" if texts.short == "skip" else "padded",
            "float64_checked_sentences": sums.checked, "float64_difference": sums.difference,
            "seconds": round(sums.seconds, 1),
            "device": str(model.device), "torch_threads": torch.get_num_threads(), "key": key,
        }  # fmt: skip
        found = Spectrum.of(sums, values, facts)
        found.write(out)
        draw_spectra(out / FIGURE, [found])
    return found


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Lock a folder that is new, empty or begun, and remove what a killed run has left half-written in it.

    Raises:
        ValueError: it has something else in it, or another process writes into it.
        OSError: it cannot be made or written.
    """
    if not (out / STATE).exists():
        check_new_folder(out, but=HALF_WRITTEN)
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in out.iterdir():
            if HALF_WRITTEN.fullmatch(path.name):
                path.unlink()
        yield
    except BlockingIOError:
        raise ValueError(f"another process measures into {out}; wait for it, or take another folder") from None
    finally:
        os.close(folder)
        if made and not any(out.iterdir()):  # it failed before it measured anything
            out.rmdir()


def attention(model: AttentionModel, texts: Sentences, chosen: Sequence[int], out: Path) -> List[Path]:
    """Draw the attention in all layers and heads, of each chosen sentence, to ``out/sentence-N.png``. Sentences are
    counted from 1, after those that are skipped; ``out`` is made if it is missing.

    Raises:
        ValueError: there is no such sentence, or a file exists.
        OSError: ``out`` cannot be written.
    """
    numbers = sorted(set(chosen))
    if not numbers or numbers[0] < 1:
        raise ValueError(f"sentences {list(chosen)} are chosen; numbers must be from 1 on")
    paths = {number: Path(out) / f"sentence-{number}.png" for number in numbers}
    for path in paths.values():
        if path.exists():
            raise ValueError(f"{path} exists; nothing is overwritten")
    found = {number: sentence for number, sentence in enumerate(islice(texts, numbers[-1]), start=1) if number in paths}
    if numbers[-1] not in found:
        raise ValueError(f"sentence {numbers[-1]} is chosen; the text has {texts.counts.sentences}{texts.left_out()}")
    for number, sentence in found.items():
        maps: List[np.ndarray] = []
        model.maps(torch.tensor([sentence]), lambda layer, weights: maps.append(weights[0].float().cpu().numpy()))
        if not all(np.isfinite(map_).all() for map_ in maps):
            raise ValueError(f"the attention of {model.name} is not finite; its weights are damaged")
        words = model.tokenizer.convert_ids_to_tokens(sentence)
        draw_maps(paths[number], maps, words,
                  f"{model.short_name} on {texts.short_name}, sentence {number}: {len(sentence)} tokens")  # fmt: skip
    return list(paths.values())
