"""Sums over sentences: against a loop, resumed, in constant memory; a different measurement is rejected."""

import json
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.analysis import commands
from fairseq_linformer.analysis import spectrum as spectrum_module
from fairseq_linformer.analysis.commands import analyze_spectrum
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.singular import cumulative_shares, singular_values
from fairseq_linformer.analysis.spectrum_result import read_spectrum

from .conftest import HEADS, LAYERS, N


def test_mean_over_sentences_equals_a_loop(model, sentences, spectrum_folder):
    """In double precision; and the content of all files."""
    expected = np.zeros((LAYERS, HEADS, N))
    for sentence, _ in zip(sentences(model), range(7)):

        def add(layer, maps):
            expected[layer] += cumulative_shares(singular_values(maps.double()))[0].numpy() / 7

        model.read_maps(torch.tensor([sentence]), add)
    spectrum = read_spectrum(spectrum_folder)
    np.testing.assert_allclose(spectrum.curve, expected, rtol=0, atol=1e-5)
    numbers = json.loads((spectrum_folder / "spectrum.json").read_text())
    np.testing.assert_allclose(numbers["heat_map_at_index"], expected[..., 2], rtol=0, atol=1e-5)
    np.testing.assert_allclose(numbers["layers_at"]["3"], expected.mean(1)[:, 2], rtol=0, atol=1e-5)
    assert (numbers["sentences"], numbers["float64_checked_sentences"]) == (7, 2)
    assert 0 < numbers["float64_difference"] < 1e-4
    assert (spectrum_folder / "spectrum.png").read_bytes()[:4] == b"\x89PNG"
    assert (spectrum.facts["sentences"], spectrum.index) == (7, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["roberta", "linformer"])
def test_padded_sentences_do_not_depend_on_the_batch(model, linformer, sentences, tmp_path, kind):
    """Curves and ranks of sentences of different lengths, with batch sizes 1 and 3."""
    if kind == "linformer":
        model = load_model(
            linformer(projected_dim=N, sharing="headwise", projection_init="normal")
        )  # always n columns, no windows
    single, batched = (
        analyze_spectrum(
            model, sentences(model, break_mode="lines", short="pad"), tmp_path / str(batch), 9, batch=batch
        )
        for batch in (1, 3)
    )
    assert single.facts["texts"]["short"] > 0
    np.testing.assert_allclose(batched.curve, single.curve, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(batched.rank, single.rank)
    assert batched.facts["model"].endswith(".pt") and batched.facts["model"].count("/") == 1
    assert batched.facts["text"] == "text.txt"


class Stop(Exception):
    pass


@pytest.mark.slow
def test_interrupted_run_resumes(model, sentences, tmp_path, monkeypatch):
    expected = analyze_spectrum(model, sentences(model), tmp_path / "expected", 20, batch=2, check=1)
    monkeypatch.setattr(spectrum_module, "_SAVE_INTERVAL", 0.0)
    add_batch, calls = spectrum_module._add_batch, []

    def add_five_batches(*arguments):
        if len(calls) == 5:
            raise Stop
        calls.append(1)
        add_batch(*arguments)

    monkeypatch.setattr(spectrum_module, "_add_batch", add_five_batches)
    out = tmp_path / "out"
    with pytest.raises(Stop):
        analyze_spectrum(model, sentences(model), out, 20, batch=2, check=1)
    assert [path.name for path in out.iterdir()] == ["state.npz"]
    monkeypatch.setattr(spectrum_module, "_add_batch", lambda *arguments: (calls.append(1), add_batch(*arguments)))
    resumed = analyze_spectrum(model, sentences(model), out, 20, batch=2, check=1)
    assert len(calls) == 10
    np.testing.assert_allclose(resumed.curve, expected.curve, rtol=0, atol=1e-12)
    assert resumed.facts["texts"] == expected.facts["texts"]
    assert analyze_spectrum(model, sentences(model), out, 30).facts["sentences"] == 30
    for message, options, count in (
        ("n must be 16, .*got 8", {"n": 8}, 40),
        ("break_mode must be .packed", {"break_mode": "lines", "short": "pad"}, 40),
        ("sentences must be at least 30.* 20", {}, 20),
    ):
        with pytest.raises(ValueError, match=message):
            analyze_spectrum(model, sentences(model, **options), out, count)
    (out / "state.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="state.npz .*damaged"):
        analyze_spectrum(model, sentences(model), out, 40)


def test_rejected_arguments(model, sentences, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "short.txt").write_text("the cat\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for message, options, run_options in (
        ("empty.txt is empty", {"path": tmp_path / "empty.txt"}, {}),
        ("0 texts", {"path": tmp_path / "blank.txt"}, {}),
        ("1 texts .*1 sentences", {"path": tmp_path / "short.txt"}, {}),
        ("index.* 17", {}, {"index": 17}),
        ("index.* 0", {}, {"index": 0}),
        ("sentences .* 0", {}, {"sentences": 0}),
        ("batch_size .* 0", {}, {"batch": 0}),
        ("num_checked .* -1", {}, {"check": -1}),
        ("full .*files", {}, {"out": tmp_path / "full"}),
        ("n must.* 2", {"n": 2}, {}),
        ("'words'", {"break_mode": "words"}, {}),
    ):
        with pytest.raises(ValueError, match=message):
            analyze_spectrum(
                model, sentences(model, **options), **{"out": tmp_path / "new", "sentences": 5, **run_options}
            )
        assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_linformer_has_k_singular_values(linformer, sentences, tmp_path):
    model = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    spectrum = analyze_spectrum(model, sentences(model), tmp_path / "out", 4)
    assert spectrum.curve.shape == (LAYERS, HEADS, 4) and spectrum.index == 1 and spectrum.rank[2].max() <= 4
    assert set(spectrum.projections) == {f"layers.{i}.{name}" for i in range(LAYERS) for name in "EF"}
    # Averages over windows of 1, 4, 4 and 7 are orthogonal rows.
    norms = np.array([1, 4, 4, 7]) ** -0.5
    np.testing.assert_allclose(spectrum.projections["layers.1.E"], norms, rtol=0, atol=1e-6)
    numbers = json.loads((tmp_path / "out" / "spectrum.json").read_text())
    assert numbers["projections"]["layers.0.F"]["rank"] == [4]
    with pytest.raises(ValueError, match="index.* 5"):
        analyze_spectrum(model, sentences(model), tmp_path / "other", 4, index=5)


class LiveTensors(TorchDispatchMode):
    """Bytes of live tensors, and their peak."""

    def __init__(self):
        super().__init__()
        self.bytes = self.peak = 0
        self.addresses = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        output = function(*arguments, **(keywords or {}))
        for tensor in output if isinstance(output, (tuple, list)) else [output]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.addresses and storage.nbytes():
                    self.addresses.add(storage.data_ptr())
                    self.bytes += storage.nbytes()
                    self.peak = max(self.peak, self.bytes)
                    weakref.finalize(storage, self._free, storage.data_ptr(), storage.nbytes())
        return output

    def _free(self, address, size):
        self.addresses.discard(address)
        self.bytes -= size


@pytest.mark.slow
def test_memory_does_not_grow_with_sentences(model, sentences, tmp_path):
    peaks = []
    for count in (4, 40):
        tracemalloc.start()
        with LiveTensors() as live:
            spectrum_module.accumulate_spectra(model, sentences(model), count, tmp_path / str(count), {}, check=0)
        python_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peaks.append((live.peak, python_peak))
    (tensors_4, python_4), (tensors_40, python_40) = peaks
    assert 0 < tensors_40 <= 1.1 * tensors_4
    assert python_40 < python_4 + 200_000
    # A few maps of one layer, not of all sentences.
    assert tensors_4 < 40 * LAYERS * HEADS * N * N * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_agrees_with_cpu(model, roberta, sentences, tmp_path):
    gpu_model = load_model(roberta, device="cuda")
    curves = [
        analyze_spectrum(m, sentences(m, n=12, short="pad", break_mode="lines"), tmp_path / name, 6, batch=3).curve
        for m, name in ((model, "cpu"), (gpu_model, "gpu"))
    ]
    np.testing.assert_allclose(*curves, rtol=0, atol=1e-4)


def test_curve_is_1_beyond_the_length_of_a_sentence(model, sentences, tmp_path):
    (tmp_path / "short.txt").write_text("the cat\n\nthe dog\n")
    spectrum = analyze_spectrum(
        model,
        sentences(model, tmp_path / "short.txt", break_mode="lines", short="pad"),
        tmp_path / "out",
        2,
        index=model.n,
    )
    assert np.allclose(spectrum.heat, 1) and spectrum.curve.shape[-1] == model.n


def test_folder_is_locked_and_temporary_files_are_removed(model, sentences, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".state.npz.e0964674").write_text("half")
    with commands.lock_folder(out), pytest.raises(ValueError, match="another process"):
        analyze_spectrum(model, sentences(model, n=8), out, 2)
    analyze_spectrum(model, sentences(model, n=8), out, 2)
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_nan_weights_are_rejected(roberta, sentences, tmp_path):
    damaged = load_model(roberta)
    next(damaged.module.parameters()).data.fill_(float("nan"))
    texts = sentences(damaged, n=8, short="pad")
    for measure in (
        lambda: commands.draw_attention(damaged, texts, [1], tmp_path / "out"),
        lambda: analyze_spectrum(damaged, texts, tmp_path / "spectrum", 1),
    ):
        with pytest.raises(ValueError, match="NaN"):
            measure()
    assert not (tmp_path / "out").exists()
