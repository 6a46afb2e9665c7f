"""``linearize``: convert, distill and measure in one command, interrupted and resumed."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.files import get_cfg_section, read_checkpoint, write_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.cli import main
from fairseq_linformer.files import sha256
from fairseq_linformer.training import linearize as linearization
from fairseq_linformer.training.explained_variance import explained_variance

from ..checkpoints.encoders import save_encoder
from ..forked_worker import quick_workers  # noqa: F401

SHAPE = ["--max-positions", "16", "--projected-dim", "4", "--local-window", "0"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / "tiny-bert", "bert", False)


@pytest.fixture(scope="module")
def text(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(words[(i * j) % len(words)] for j in range(3, 25)) + "\n\n" for i in range(300))
    (folder / "train.txt").write_text("".join(lines))
    tokenizer = ["--tokenizer", str(encoder / "tokenizer.json"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(folder / "bin"), "--source", str(folder / "train.txt"), *tokenizer])
    return folder / "bin" / "shard0"


def run(source, out, text, *options):
    main(["linearize", str(source), str(out), "--text", str(text), *SHAPE, "--batch-size", "4", *map(str, options)])


def convert_only(source, out, text, *options):
    """Without training; returns the report."""
    main(["linearize", str(source), str(out), "--text", str(text), *SHAPE, "--max-update", "0", *map(str, options)])
    return json.loads((out / "report.json").read_text())


@pytest.mark.slow
def test_from_an_encoder_to_a_linformer(encoder, text, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--max-update", 60, "--lr", 0.002, "--projection-init", "normal"]
    run(encoder, out, text, *options)
    printed = capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    before, after = report["variance_before"], report["variance_after"]
    assert len(before) == len(after) == 2 and before[-1] < after[-1] < 1
    assert f"{after[-1]:.3f}" in printed and report["tokens_at_most"] == 60 * 4 * 16
    teacher = out / "teacher" / "model.pt"
    assert report["teacher_sha256"] == sha256(teacher)
    model = read_checkpoint(out / "model.pt")
    assert model["provenance"]["imported"]["lm_head"] == "new, untrained" and "last_optimizer_state" not in model
    assert explained_variance(teacher, out / "model.pt", text, 16) == pytest.approx(after)
    build_model(open_checkpoint(out / "model.pt"))
    modified = (out / "model.pt").stat().st_mtime_ns
    run(encoder, out, text, *options)  # a finished one is only reported
    assert capsys.readouterr().out == printed and (out / "model.pt").stat().st_mtime_ns == modified
    main(["export", str(out / "model.pt"), str(tmp_path / "hf")])
    with pytest.raises(SystemExit, match="out was made from other inputs: max_update must be 60, got 61;"):
        run(encoder, out, text, *options, "--max-update", 61)


def test_conversion_only(encoder, text, tmp_path):
    report = convert_only(encoder, tmp_path / "a", text)
    start, teacher = (tmp_path / "a" / name for name in ("untrained.pt", "teacher/model.pt"))
    assert report["variance_after"] == pytest.approx(explained_variance(teacher, start, text, 16))
    assert get_cfg_section(read_checkpoint(start), "model")["projection_init"] == "graded"
    assert not (tmp_path / "a" / "run").exists() and (tmp_path / "a" / "tokenizer.json").exists()
    same = convert_only(encoder, tmp_path / "b", text, "--projected-dim", 16)["variance_before"]  # k = n
    assert same == pytest.approx([1, 1], abs=1e-6)
    assert explained_variance(teacher, teacher, text, 16) == [1, 1]


def test_options_of_the_model(encoder, text, tmp_path):
    options = dict(sharing="none", projected_dim="8,4", projection_init="average", local_window=2)
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    convert_only(encoder, tmp_path / "out", text, *flags)
    model = get_cfg_section(read_checkpoint(tmp_path / "out" / "model.pt"), "model")
    assert {name: model[name] for name in options} == options
    assert json.loads((tmp_path / "out" / "inputs.json").read_text()).items() >= options.items()


@pytest.mark.slow
def test_share_is_measured_during_training(encoder, text, tmp_path):
    """Also after an update that ends an epoch, whose checkpoint has another name."""
    out = tmp_path / "out"
    model = dict(projected_dim="4", max_positions=16, projection_init="normal", local_window=0)
    values = dict(batch_size=256, max_update=6, lr=0.01, tokens_per_sample=8, measure_at=(1, 2, 3, 4, 5))
    report = linearization.linearize(linearization.Linearization(str(encoder), str(text), model, **values), out)
    assert report["tokens_at_most"] == 6 * 256 * 8
    assert get_cfg_section(read_checkpoint(out / "model.pt"), "model")["max_positions"] == 16
    saved = {}
    for path in (out / "run" / "checkpoints").glob("checkpoint[0-9_]*.pt"):
        if not path.name.startswith(("checkpoint_best", "checkpoint_last")):
            saved[read_checkpoint(path)["optimizer_history"][-1]["num_updates"]] = path
    assert {1, 2, 3, 4, 5} <= saved.keys() and "checkpoint1.pt" in {saved[update].name for update in range(1, 6)}
    teacher = out / "teacher" / "model.pt"
    expected = {str(update): explained_variance(teacher, saved[update], text, 8) for update in range(1, 6)}
    assert report["variance_at"] == {update: pytest.approx(shares) for update, shares in expected.items()}
    assert len({shares[0] for shares in expected.values()}) == 5
    (out / "report.json").unlink()
    moved = shutil.copytree(text, tmp_path / "moved")
    with pytest.raises(ValueError, match="task.data must be .*; choose another folder, or move it away"):
        linearization.linearize(linearization.Linearization(str(encoder), str(moved), model, **values), out)


@pytest.mark.slow
def test_few_blocks(encoder, text, tmp_path):
    """Fewer than fairseq's default multiple of batch sizes, in mixed precision."""
    lines = (text.parent.parent / "train.txt").read_text().splitlines(keepends=True)[:12]
    (tmp_path / "few.txt").write_text("".join(lines))
    tokenizer = ["--tokenizer", str(encoder / "tokenizer.json"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(tmp_path / "bin"), "--source", str(tmp_path / "few.txt"), *tokenizer])
    run(encoder, tmp_path / "out", tmp_path / "bin" / "shard0", "--max-update", 2, "--tokens-per-sample", 16, "--amp")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["variance_before"] != report["variance_after"]
    assert "amp: true" in (tmp_path / "out/run/config.yaml").read_text()


def test_the_seed_determines_all_new_parameters(encoder, text, tmp_path):
    """The encoder has no head of masked language modeling, so the teacher gets a new one."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.seed()
        convert_only(encoder, tmp_path / name, text, "--projection-init", "normal", "--seed", seed)
    a, b, c = (read_checkpoint(tmp_path / name / "model.pt")["model"] for name in "abc")
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert {key for key in a if not torch.equal(a[key], c[key])} >= {"encoder.lm_head.dense.weight"}
    assert sha256(tmp_path / "a" / "teacher" / "model.pt") == sha256(tmp_path / "b" / "teacher" / "model.pt")


def test_only_the_same_inputs_resume(encoder, text, tmp_path):
    source, out = shutil.copytree(encoder, tmp_path / "encoder"), tmp_path / "out"
    before = convert_only(source, out, text)["variance_before"]
    assert convert_only(encoder, out, text)["variance_before"] == before  # another folder with the same weights
    other = shutil.copytree(text, tmp_path / "other")
    shutil.copy(text / "valid.idx", other / "train.idx")
    with pytest.raises(SystemExit, match="out was made from other inputs: text must be"):
        convert_only(source, out, other)
    (out / "report.json").unlink()
    assert convert_only(source, out, text)["variance_before"] == before
    weights = load_file(source / "model.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, source / "model.safetensors")
    with pytest.raises(SystemExit, match="out was made from other inputs: source must be"):
        convert_only(source, out, text)


def test_a_fairseq_checkpoint_is_its_own_teacher(encoder, text, tmp_path):
    convert(encoder, tmp_path / "t", arch="roberta", max_positions=16)
    teacher, out = tmp_path / "t" / "model.pt", tmp_path / "out"
    convert_only(teacher.parent, out, text)
    assert not (out / "teacher").exists()
    state, checkpoint = read_checkpoint(out / "model.pt")["model"], read_checkpoint(teacher)
    assert all(torch.equal(state[key], value) for key, value in checkpoint["model"].items())
    checkpoint["model"]["encoder.lm_head.bias"] += 1
    teacher.unlink()
    write_checkpoint(checkpoint, teacher)
    for source in (teacher, teacher.parent):
        with pytest.raises(SystemExit, match="out was made from other inputs: source must be"):
            convert_only(source, out, text)
