"""Sums over sentences: right, resumed, constant in memory, and refused where they are of something else."""

import json
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.analysis import run
from fairseq_linformer.analysis import spectrum as module
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.result import read
from fairseq_linformer.analysis.run import spectrum
from fairseq_linformer.analysis.singular import cumulative, singular_values

from .conftest import HEADS, LAYERS, N


def test_the_mean_over_sentences(model, sentences, measured):
    """Against a loop over sentences, layers and heads in double precision; and all files."""
    expected = np.zeros((LAYERS, HEADS, N))
    for sentence, _ in zip(sentences(model), range(7)):

        def add(layer, maps):
            expected[layer] += cumulative(singular_values(maps.double()))[0].numpy() / 7

        model.maps(torch.tensor([sentence]), add)
    found = read(measured)
    np.testing.assert_allclose(found.curve, expected, rtol=0, atol=1e-5)
    numbers = json.loads((measured / "spectrum.json").read_text())
    np.testing.assert_allclose(numbers["heat_map_at_index"], expected[..., 2], rtol=0, atol=1e-5)
    np.testing.assert_allclose(numbers["layers_at"]["3"], expected.mean(1)[:, 2], rtol=0, atol=1e-5)
    assert (numbers["sentences"], numbers["float64_checked_sentences"]) == (7, 2) and 0 < numbers[
        "float64_difference"
    ] < 1e-4
    assert (measured / "spectrum.png").read_bytes()[:4] == b"\x89PNG" and (found.facts["sentences"], found.index) == (
        7,
        3,
    )


@pytest.mark.parametrize("kind", ["roberta", "linformer"])
def test_padded_sentences_are_measured_alike_in_any_batch(model, linformer, sentences, tmp_path, kind):
    """Curves and ranks of sentences of different length, one by one and three at once."""
    if kind == "linformer":
        model = load_model(
            linformer(projected_dim=N, sharing="headwise", projection_init="normal")
        )  # always n columns, no windows
    alone, together = (
        spectrum(model, sentences(model, cut="lines", short="pad"), tmp_path / str(batch), 9, batch=batch)
        for batch in (1, 3)
    )
    assert alone.facts["texts"]["short"] > 0
    np.testing.assert_allclose(together.curve, alone.curve, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(together.rank, alone.rank)
    assert (
        together.facts["model"].endswith(".pt")
        and together.facts["model"].count("/") == 1
        and together.facts["text"] == "text.txt"
    )


class Stop(Exception):
    pass


def test_a_killed_run_resumes_and_another_question_is_refused(model, sentences, tmp_path, monkeypatch):
    straight = spectrum(model, sentences(model), tmp_path / "straight", 20, batch=2, check=1)
    monkeypatch.setattr(module, "_SAVE_EVERY", 0.0)
    add, calls = module._add, []

    def add_five(*arguments):
        if len(calls) == 5:
            raise Stop
        calls.append(1)
        add(*arguments)

    monkeypatch.setattr(module, "_add", add_five)
    killed = tmp_path / "killed"
    with pytest.raises(Stop):
        spectrum(model, sentences(model), killed, 20, batch=2, check=1)
    assert [path.name for path in killed.iterdir()] == ["state.npz"]
    monkeypatch.setattr(module, "_add", lambda *arguments: (calls.append(1), add(*arguments)))
    resumed = spectrum(model, sentences(model), killed, 20, batch=2, check=1)
    assert len(calls) == 10
    np.testing.assert_allclose(resumed.curve, straight.curve, rtol=0, atol=1e-12)
    assert resumed.facts["texts"] == straight.facts["texts"]
    assert spectrum(model, sentences(model), killed, 30).facts["sentences"] == 30
    for named, options, count in (
        ("another n: 16, now 8", {"n": 8}, 40),
        ("another cut", {"cut": "lines", "short": "pad"}, 40),
        ("30 sentences.* 20", {}, 20),
    ):
        with pytest.raises(ValueError, match=named):
            spectrum(model, sentences(model, **options), killed, count)
    (killed / "state.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="state.npz .*damaged"):
        spectrum(model, sentences(model), killed, 40)


def test_refusals(model, sentences, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "short.txt").write_text("the cat\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for named, options, run_options in (
        ("empty.txt is empty", {"path": tmp_path / "empty.txt"}, {}),
        ("0 texts", {"path": tmp_path / "blank.txt"}, {}),
        ("1 texts .*1 shorter", {"path": tmp_path / "short.txt"}, {}),
        ("index is 17", {}, {"index": 17}),
        ("index is 0", {}, {"index": 0}),
        ("sentences is 0", {}, {"sentences": 0}),
        ("batch is 0", {}, {"batch": 0}),
        ("check is -1", {}, {"check": -1}),
        ("full has files in it", {}, {"out": tmp_path / "full"}),
        ("n is 2", {"n": 2}, {}),
        ("'words'", {"cut": "words"}, {}),
    ):
        with pytest.raises(ValueError, match=named):
            spectrum(model, sentences(model, **options), **{"out": tmp_path / "new", "sentences": 5, **run_options})
        assert not (tmp_path / "new").exists()


def test_a_linformer_has_k_values_and_its_matrices_theirs(linformer, sentences, tmp_path):
    model = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    found = spectrum(model, sentences(model), tmp_path / "out", 4)
    assert found.curve.shape == (LAYERS, HEADS, 4) and found.index == 1 and found.rank[2].max() <= 4
    assert set(found.projections) == {f"layers.{i}.{which}" for i in range(LAYERS) for which in "EF"}
    # Averages over windows of 4: rows at right angles, of length 1/2.
    np.testing.assert_allclose(found.projections["layers.1.E"], np.full(4, 0.5), rtol=0, atol=1e-6)
    numbers = json.loads((tmp_path / "out" / "spectrum.json").read_text())
    assert numbers["projections"]["layers.0.F"]["rank"] == [4]
    with pytest.raises(ValueError, match="index is 5"):
        spectrum(model, sentences(model), tmp_path / "other", 4, index=5)


class Live(TorchDispatchMode):
    """Bytes of all tensors that are alive, and their peak."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.seen = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.seen and storage.nbytes():
                    self.seen.add(storage.data_ptr())
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._gone, storage.data_ptr(), storage.nbytes())
        return made

    def _gone(self, address, size):
        self.seen.discard(address)
        self.now -= size


def test_memory_does_not_grow_with_sentences(model, sentences, tmp_path):
    peaks = []
    for count in (4, 40):
        tracemalloc.start()
        with Live() as live:
            module.measure(model, sentences(model), count, tmp_path / str(count), {}, check=0)
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peaks.append((live.peak, python))
    (tensors, python), (more_tensors, more_python) = peaks
    assert 0 < more_tensors <= 1.1 * tensors
    assert more_python < python + 200_000  # ten times the sentences; numpy's sums are in it
    # A few maps of one layer, not of all sentences.
    assert tensors < 40 * LAYERS * HEADS * N * N * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(model, roberta, sentences, tmp_path):
    there = load_model(roberta, device="cuda")
    curves = [
        spectrum(m, sentences(m, n=12, short="pad", cut="lines"), tmp_path / name, 6, batch=3).curve
        for m, name in ((model, "cpu"), (there, "gpu"))
    ]
    np.testing.assert_allclose(*curves, rtol=0, atol=1e-4)


def test_sentences_shorter_than_the_index_count_as_whole(model, sentences, tmp_path):
    (tmp_path / "short.txt").write_text("the cat\n\nthe dog\n")
    found = spectrum(
        model, sentences(model, tmp_path / "short.txt", cut="lines", short="pad"), tmp_path / "out", 2, index=model.n
    )
    assert np.allclose(found.heat, 1) and found.curve.shape[-1] == model.n


def test_a_folder_is_of_one_run_and_half_of_a_file_is_removed(model, sentences, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".state.npz.e0964674").write_text("half")
    with run.alone_in(out), pytest.raises(ValueError, match="another process"):
        spectrum(model, sentences(model, n=8), out, 2)
    spectrum(model, sentences(model, n=8), out, 2)
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_damaged_weights_are_refused(roberta, sentences, tmp_path):
    damaged = load_model(roberta)
    next(damaged.module.parameters()).data.fill_(float("nan"))
    texts = sentences(damaged, n=8, short="pad")
    for measure in (
        lambda: run.attention(damaged, texts, [1], tmp_path / "out"),
        lambda: spectrum(damaged, texts, tmp_path / "spectrum", 1),
    ):
        with pytest.raises(ValueError, match="not finite"):
            measure()
    assert not (tmp_path / "out").exists()
