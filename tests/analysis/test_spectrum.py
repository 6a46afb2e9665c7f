"""The stream of sentences, the sums over them, going on, memory, and k that is suggested."""

import itertools
import json
import re
import shutil
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_linformer.analysis import run
from fairseq_linformer.analysis import spectrum as module
from fairseq_linformer.analysis.figures import _largest_of_blocks, _title
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.result import read, suggest
from fairseq_linformer.analysis.run import attention, spectrum
from fairseq_linformer.analysis.singular import cumulative, singular_values
from fairseq_linformer.analysis.texts import Counts, Sentences
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.modules import LinformerEncoder

from .conftest import HEADS, LAYERS, N, TEXT


@pytest.fixture(scope="module")
def model(roberta):
    return load_model(roberta)


def sentences(model, text, n=N, **options):
    return Sentences([str(text)], model.tokenizer, n, bos=model.bos, eos=model.eos, **options)


def test_packed_sentences_are_what_masked_lm_has(model, text):
    ids = [model.tokenizer(line, add_special_tokens=False)["input_ids"] for line in TEXT * 20]
    stream = [token for line in ids for token in [*line, 2]]
    whole, rest = divmod(len(stream), N - 1)
    expected = [[0, *stream[i * (N - 1) : (i + 1) * (N - 1)]] for i in range(whole)]
    texts = sentences(model, text)
    assert list(texts) == expected == list(texts)
    assert texts.counts == Counts(texts=60, short=int(rest > 0), sentences=whole)
    # n with a rest.
    n = next(n for n in range(5, N) if len(stream) % (n - 1))
    assert list(sentences(model, text, n=n, short="pad"))[-1] == [0, *stream[len(stream) // (n - 1) * (n - 1) :]]


def test_lines_are_cut_skipped_or_padded_and_counted(model, text, tmp_path):
    lengths = [2 + len(model.tokenizer(line, add_special_tokens=False)["input_ids"]) for line in TEXT]
    n = sorted(lengths)[1]
    texts = sentences(model, text, n=n, cut="lines")
    found = list(texts)
    assert all(len(s) == n and s[0] == 0 and s[-1] == 2 for s in found)
    counts = texts.counts
    assert (counts.short, counts.cut) == (20 * sum(x < n for x in lengths), 20 * sum(x > n for x in lengths))
    assert len(found) == counts.sentences == 60 - counts.short
    padded = list(sentences(model, text, n=n, cut="lines", short="pad"))
    assert [len(s) for s in padded[:3]] == [min(n, x) for x in lengths]
    # A row of JSON lines is one text, whatever lines it has.
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": "a dog\nsat"}) + "\n" for _ in range(3)))
    rows = sentences(model, tmp_path / "rows.jsonl", cut="lines", short="pad")
    assert len(list(rows)) == 3 and rows.counts.texts == 3


def test_the_mean_over_sentences(model, text, tmp_path):
    """Against a loop over sentences, layers and heads in double precision; and all that is written."""
    texts = sentences(model, text)
    found = spectrum(model, texts, tmp_path / "out", sentences=7, index=3, batch=3, check=2)
    expected = np.zeros((LAYERS, HEADS, N))
    for sentence, _ in zip(texts, range(7)):
        def add(layer, maps):
            expected[layer] += cumulative(singular_values(maps.double()))[0].numpy() / 7

        model.maps(torch.tensor([sentence]), add)
    np.testing.assert_allclose(found.curve, expected, rtol=0, atol=1e-5)
    numbers = json.loads((tmp_path / "out" / "spectrum.json").read_text())
    np.testing.assert_allclose(numbers["heat_map_at_index"], expected[..., 2], rtol=0, atol=1e-5)
    np.testing.assert_allclose(numbers["layers_at"]["3"], expected.mean(1)[:, 2], rtol=0, atol=1e-5)
    assert (numbers["sentences"], numbers["float64_checked_sentences"]) == (7, 2) and 0 < numbers["float64_difference"] < 1e-4
    assert (tmp_path / "out" / "spectrum.png").read_bytes()[:4] == b"\x89PNG"
    again = read(tmp_path / "out")
    np.testing.assert_array_equal(again.curve, found.curve)
    assert again.facts == found.facts


@pytest.mark.parametrize("kind", ["roberta", "linformer"])
def test_padded_sentences_are_measured_alike_in_any_batch(model, linformer, text, tmp_path, kind):
    """Curves and ranks of sentences of different length, one by one and three at once."""
    if kind == "linformer":
        model = load_model(linformer(projected_dim=N, sharing="headwise", projection_init="normal"))  # always n columns, no windows
    alone, together = (spectrum(model, sentences(model, text, cut="lines", short="pad"), tmp_path / str(batch), 9, batch=batch) for batch in (1, 3))
    assert alone.facts["texts"]["short"] > 0
    np.testing.assert_allclose(together.curve, alone.curve, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(together.rank, alone.rank)
    assert together.facts["model"].endswith(".pt") and together.facts["model"].count("/") == 1 and together.facts["text"] == "text.txt"


class Stop(Exception):
    pass


def test_killed_it_goes_on_and_another_question_is_refused(model, text, tmp_path, monkeypatch):
    straight = spectrum(model, sentences(model, text), tmp_path / "straight", 20, batch=2, check=1)
    monkeypatch.setattr(module, "_SAVE_EVERY", 0.0)
    run, calls = module._add, []

    def add(*arguments):
        if len(calls) == 5:
            raise Stop
        calls.append(1)
        run(*arguments)

    monkeypatch.setattr(module, "_add", add)
    with pytest.raises(Stop):
        spectrum(model, sentences(model, text), tmp_path / "killed", 20, batch=2, check=1)
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["state.npz"]
    monkeypatch.setattr(module, "_add", lambda *arguments: (calls.append(1), run(*arguments)))
    resumed = spectrum(model, sentences(model, text), tmp_path / "killed", 20, batch=2, check=1)
    assert len(calls) == 10
    np.testing.assert_allclose(resumed.curve, straight.curve, rtol=0, atol=1e-12)
    assert resumed.facts["texts"] == straight.facts["texts"]
    more = spectrum(model, sentences(model, text), tmp_path / "killed", 30)
    assert more.facts["sentences"] == 30
    for wanted, options, count in (
        ("begun with another n: 16, now 8", {"n": 8}, 40),
        ("begun with another cut", {"cut": "lines", "short": "pad"}, 40),
        ("30 sentences already; as many or more can be asked for, 20 is fewer", {}, 20),
    ):
        with pytest.raises(ValueError, match=wanted):
            spectrum(model, sentences(model, text, **options), tmp_path / "killed", count)
    (tmp_path / "killed" / "state.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="is not what this command wrote, or damaged"):
        spectrum(model, sentences(model, text), tmp_path / "killed", 40)


def test_bad_input(model, text, tmp_path):
    def refused(sentence, path=text, out="new", count=5, index=None, **options):
        with pytest.raises(ValueError, match=sentence):
            spectrum(model, sentences(model, path, **options), tmp_path / out, count, index)
        assert not (tmp_path / "new").exists()

    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "short.txt").write_text("the cat\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused("empty.txt is empty", tmp_path / "empty.txt")
    refused("the text has 0 texts and no sentence of 16 tokens", tmp_path / "blank.txt")
    refused("the text has 1 texts and no sentence of 16 tokens \\(1 shorter\\)", tmp_path / "short.txt")
    refused("index is 17; it must be from 1 to 16", index=17)
    refused("index is 0", index=0)
    refused("sentences is 0", count=0)
    refused("full has files in it", out="full")
    refused("n is 2; it must be at least 3", n=2)
    refused("cut is 'words'", cut="words")


def test_a_linformer_has_k_values_and_its_matrices_theirs(linformer, text, tmp_path):
    model = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    found = spectrum(model, sentences(model, text), tmp_path / "out", 4)
    assert found.curve.shape == (LAYERS, HEADS, 4) and found.index == 1 and found.rank[2].max() <= 4
    assert set(found.projections) == {f"layers.{i}.{which}" for i in range(LAYERS) for which in "EF"}
    # Averages over windows of 4: rows at right angles, of length 1/2.
    np.testing.assert_allclose(found.projections["layers.1.E"], np.full(4, 0.5), rtol=0, atol=1e-6)
    numbers = json.loads((tmp_path / "out" / "spectrum.json").read_text())
    assert numbers["projections"]["layers.0.F"]["rank"] == [4]
    with pytest.raises(ValueError, match="index is 5; it must be from 1 to 4"):
        spectrum(model, sentences(model, text), tmp_path / "other", 4, index=5)


def test_what_is_suggested_makes_a_model(model, text, tmp_path):
    found = spectrum(model, sentences(model, text), tmp_path / "out", 5)
    for measure, curve in (("values", found.curve), ("squares", found.energy)):
        made = {}
        for sharing, k in suggest(found, 0.9, measure).items():
            config = LinformerConfig(vocab_size=24, max_positions=N, projected_dim=str(k), sharing=sharing,
                                     layers=LAYERS, attention_heads=HEADS, embed_dim=16, ffn_embed_dim=32)  # fmt: skip
            LinformerEncoder(config)(torch.full((1, N), 5))
            made[sharing] = config.projected_dims
        for layer in range(LAYERS):
            k = made["none"][layer]
            for head, one in enumerate((k,) * HEADS if isinstance(k, int) else k):
                # The smallest that reaches the share.
                assert curve[layer, head, one - 1] >= 0.9 and (one == 1 or curve[layer, head, one - 2] < 0.9)
            assert made["headwise"][layer] == made["key-value"][layer] == (k if isinstance(k, int) else max(k))
        assert set(made["layerwise"]) == {max(made["headwise"])}
    with pytest.raises(ValueError, match="measure is 'area'"):
        suggest(found, 0.9, "area")


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


def test_memory_does_not_grow_with_sentences(model, text, tmp_path):
    peaks = []
    for count in (4, 40):
        tracemalloc.start()
        with Live() as live:
            module.measure(model, sentences(model, text), count, tmp_path / str(count), {}, check=0)
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        peaks.append((live.peak, python))
    (tensors, python), (more_tensors, more_python) = peaks
    assert 0 < more_tensors <= 1.1 * tensors
    assert more_python < python + 200_000  # ten times the sentences; numpy's sums are in it
    # A few maps of one layer, not of all sentences: far below those that were made.
    assert tensors < 40 * LAYERS * HEADS * N * N * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(model, roberta, text, tmp_path):
    there = load_model(roberta, device="cuda")
    curves = [spectrum(m, sentences(m, text, n=12, short="pad", cut="lines"), tmp_path / name, 6, batch=3).curve
              for m, name in ((model, "cpu"), (there, "gpu"))]  # fmt: skip
    np.testing.assert_allclose(*curves, rtol=0, atol=1e-4)


def test_a_picture_keeps_lines_that_are_a_position_wide():
    """Attention to the position before, of 512 positions in 200 pixels; and a map that fits is left as it is."""
    drawn = _largest_of_blocks(np.eye(512, k=-1), 200)
    assert drawn.shape == (171, 171) and drawn.diagonal().tolist() == [1.0] * 171
    assert _largest_of_blocks(np.eye(512)[:, :150], 200).shape == (171, 150)
    np.testing.assert_array_equal(_largest_of_blocks(np.eye(7), 200), np.eye(7))


def test_a_figure_says_of_what_it_is(model, text, tmp_path):
    found = spectrum(model, sentences(model, text), tmp_path / "out", 2)
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 2 sentences", _title(found))
    del found.facts["text"]  # as measured before it was noted
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 2 sentences", _title(found))
    found.facts.update(short_sentences="padded", texts={**found.facts["texts"], "short": 1})
    assert _title(found).endswith("\nup to 16 tokens, 2 sentences")


@pytest.mark.slow
def test_pictures_of_attention(model, linformer, text, tmp_path):
    paths = attention(model, sentences(model, text, short="pad"), [2, 1], tmp_path / "pictures")
    assert [path.name for path in paths] == ["sentence-1.png", "sentence-2.png"] and all(path.stat().st_size > 5000 for path in paths)
    with pytest.raises(ValueError, match="sentence-1.png exists; nothing is overwritten"):
        attention(model, sentences(model, text), [1], tmp_path / "pictures")
    with pytest.raises(ValueError, match="sentence 1000 is chosen; the text has 6[0-9], of at most 16 tokens"):
        attention(model, sentences(model, text), [1000], tmp_path / "pictures")
    small = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    assert attention(small, sentences(small, text), [1], tmp_path / "small")[0].exists()


@pytest.mark.slow
def test_the_commands(roberta, text, tmp_path, capsys):
    from fairseq_linformer.cli import main

    main(["analyze", "spectrum", str(roberta), "--text", str(text), "--out", str(tmp_path / "a"), "--sentences", "5", "--suggest-k", "0.5"])
    said = capsys.readouterr().out
    assert "5 sentences of 16 tokens (5 asked for) from" in said and "at index 4 of 16" in said
    k = suggest(read(tmp_path / "a"), 0.5)
    assert f"  --sharing none --projected-dim {k['none']}\n" in said
    main(["analyze", "figure", str(tmp_path / "a"), str(tmp_path / "a"), "--title", "one", "--title", "two", "--out", str(tmp_path / "f.svg")])
    assert "<svg" in (tmp_path / "f.svg").read_text()
    for arguments, sentence in (
        (["figure", str(tmp_path / "a"), "--out", str(tmp_path / "f.svg")], "exists; nothing is overwritten"),
        (["figure", str(tmp_path / "a"), "--out", str(tmp_path / "f.pdf")], "must end in .png or .svg"),
        (["figure", str(tmp_path), "--out", str(tmp_path / "g.png")], "has no spectrum.npz"),
        (["spectrum", str(roberta), "--text", str(text), "--out", str(tmp_path / "b"), "--suggest-k", "1.5"], "must be above 0 and below 1"),
        (["spectrum", str(roberta), "--text", str(text), "--out", str(tmp_path / "b"), "--energy", "squares"], "--energy is given and no --suggest-k"),
        (["spectrum", str(roberta), "--text", str(text), "--out", str(tmp_path / "b"), "--length", "17"], "length is 17; it must be from 3 to 16"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["analyze", *arguments])
        assert sentence in end.value.code
    assert not (tmp_path / "b").exists()


def test_sentences_shorter_than_the_index_count_as_whole(model, tmp_path):
    (tmp_path / "short.txt").write_text("the cat\n\nthe dog\n")
    texts = Sentences([str(tmp_path / "short.txt")], model.tokenizer, model.n, "lines", "pad", model.bos, model.eos)
    found = run.spectrum(model, texts, tmp_path / "out", 2, index=model.n)
    assert np.allclose(found.heat, 1) and found.curve.shape[-1] == model.n


def test_a_line_that_is_no_text_takes_no_other_with_it(model, tmp_path):
    (tmp_path / "lines.txt").write_bytes(b"the cat sat\nthe \xff dog\nthe mat\n" + b"a dog ran\n" * 2_000_000)
    texts = Sentences([str(tmp_path / "lines.txt")], model.tokenizer, 8, "lines", "pad", model.bos, model.eos)
    assert len([*itertools.islice(texts, 5)]) == 5 and texts.counts.unfit == 1
    (tmp_path / "bytes.txt").write_bytes("the cat".encode("utf-16") * 9)
    texts = Sentences([str(tmp_path / "bytes.txt")], model.tokenizer, 8, "lines", "pad", model.bos, model.eos)
    with pytest.raises(ValueError, match="documents are no text"):
        run.spectrum(model, texts, tmp_path / "out", 2)
    with pytest.raises(ValueError, match="documents are no text"):
        run.attention(model, texts, [1], tmp_path / "out")


def test_a_folder_is_of_one_run_and_half_of_a_file_is_nothing(model, text, tmp_path):
    texts = lambda: Sentences([str(text)], model.tokenizer, 8, bos=model.bos, eos=model.eos)  # noqa: E731
    out = tmp_path / "out"
    out.mkdir()
    (out / ".state.npz.e0964674").write_text("half")
    with run.alone_in(out), pytest.raises(ValueError, match="another process measures into"):
        run.spectrum(model, texts(), out, 2)
    run.spectrum(model, texts(), out, 2)
    assert not [path for path in out.iterdir() if path.name.startswith(".")]
    (tmp_path / "folder").mkdir()
    shutil.copy(text, tmp_path / "folder")
    inside = Sentences([str(tmp_path / "folder")], model.tokenizer, 8, bos=model.bos, eos=model.eos)
    with pytest.raises(ValueError, match="the folder of the text; another folder is wanted"):
        run.spectrum(model, inside, tmp_path / "folder" / "out", 2)


def test_pictures_of_nothing_are_not_drawn(model, text, tmp_path):
    texts = Sentences([str(text)], model.tokenizer, 8, "packed", "pad", model.bos, model.eos)
    with pytest.raises(ValueError, match="sentence 99999 is chosen"):
        run.attention(model, texts, [1, 99999], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    weight = next(model.module.parameters())
    before = weight.detach().clone()
    try:
        weight.data.fill_(float("nan"))
        for ask in (lambda: run.attention(model, texts, [1], tmp_path / "out"), lambda: run.spectrum(model, texts, tmp_path / "spectrum", 1)):
            with pytest.raises(ValueError, match="not finite"):
                ask()
    finally:
        weight.data.copy_(before)
