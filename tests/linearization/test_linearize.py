"""``linearize``: convert, distill and measure in one command, interrupted and resumed."""

import json
import shutil

import pytest
import torch

pytest.importorskip("transformers")

from fairseq_linformer.checkpoints.files import get_cfg_section, read_checkpoint, write_checkpoint
from fairseq_linformer.checkpoints.from_transformers import from_transformers
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.cli import main
from fairseq_linformer.files import sha256
from fairseq_linformer.linearization import linearize as linearization
from fairseq_linformer.linearization.explained_variance import explained_variance

from ..checkpoints.encoders import save_encoder
from ..forked_worker import quick_workers  # noqa: F401

SHAPE = ["--max-positions", "16", "--projected-dim", "4"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / "tiny-bert", "bert", False)


@pytest.fixture(scope="module")
def text(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(words[(i * j) % len(words)] for j in range(3, 25)) + "\n\n" for i in range(300))
    (folder / "train.txt").write_text("".join(lines))
    tokenizer = ["--tokenizer-json", str(encoder / "tokenizer.json"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(folder / "bin"), "--source", str(folder / "train.txt"), *tokenizer])
    return folder / "bin" / "shard0"


def run(source, out, text, *options):
    main(["linearize", str(source), str(out), "--text", str(text), *SHAPE, "--batch-size", "4", *map(str, options)])


def convert(source, out, text, *options):
    """Without training."""
    main(["linearize", str(source), str(out), "--text", str(text), *SHAPE, "--max-update", "0", *map(str, options)])


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
    main(["convert", "to-huggingface", str(out / "model.pt"), str(tmp_path / "hf")])
    with pytest.raises(SystemExit, match="max_update"):
        run(encoder, out, text, *options, "--max-update", 61)


@pytest.mark.slow
def test_mixed_precision(encoder, text, tmp_path):
    """The same data and parameters with another rounding learn as much."""
    reports = []
    for name, options in (("single", []), ("amp", ["--amp"])):
        run(encoder, tmp_path / name, text, "--max-update", 60, "--lr", 0.002, "--projection-init", "normal", *options)
        reports.append(json.loads((tmp_path / name / "report.json").read_text()))
    single, amp = (report["variance_after"] for report in reports)
    assert reports[0]["variance_before"] == reports[1]["variance_before"]
    # Only the first layer: the tiny encoder's last one hardly varies, and its share is the ratio of two small numbers.
    assert single != amp and single[0] == pytest.approx(amp[0], abs=0.03) and amp[0] > reports[1]["variance_before"][0]


def test_conversion_only(encoder, text, tmp_path):
    convert(encoder, tmp_path / "a", text)
    report = json.loads((tmp_path / "a" / "report.json").read_text())
    start, teacher = (tmp_path / "a" / name for name in ("start.pt", "teacher/model.pt"))
    assert report["variance_after"] == pytest.approx(explained_variance(teacher, start, text, 16))
    assert (report["options"]["projection_init"], report["options"]["short_seq_prob"]) == ("graded", 0.5)
    assert not (tmp_path / "a" / "run").exists() and (tmp_path / "a" / "tokenizer.json").exists()
    convert(encoder, tmp_path / "b", text, "--projected-dim", 16)  # k = n
    same = json.loads((tmp_path / "b" / "report.json").read_text())["variance_before"]
    assert same == pytest.approx([1, 1], abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        dict(sharing="key-value", local_window=2),
        dict(projection="mean-pool"),
        dict(sharing="none", projected_dim="8,4", projection_init="average"),
    ],
)
def test_options_of_the_model(options, encoder, text, tmp_path):
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    convert(encoder, tmp_path / "out", text, *flags)
    model = get_cfg_section(read_checkpoint(tmp_path / "out" / "model.pt"), "model")
    assert {name: model[name] for name in options} == options
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["options"]["model"].items() >= {k: v for k, v in options.items() if k != "projection_init"}.items()


def test_length_of_blocks(encoder, text, tmp_path):
    out = tmp_path / "out"
    convert(encoder, out, text, "--tokens-per-sample", 8)
    report = json.loads((out / "report.json").read_text())
    expected = {n: explained_variance(out / "teacher" / "model.pt", out / "start.pt", text, n) for n in (8, 16)}
    assert report["variance_before"] == pytest.approx(expected[8]) != pytest.approx(expected[16])
    assert get_cfg_section(read_checkpoint(out / "model.pt"), "model")["max_positions"] == 16


@pytest.mark.slow
def test_share_is_measured_during_training(encoder, text, tmp_path):
    """Also after an update that ends an epoch, whose checkpoint has another name."""
    out, model = tmp_path / "out", dict(projected_dim="4", max_positions=16, projection_init="normal")
    values = dict(batch_size=256, max_update=6, lr=0.01, tokens_per_sample=8, measure_at=(1, 2, 3, 4, 5))
    report = linearization.linearize(linearization.Linearization(str(encoder), str(text), model, **values), out)
    assert report["tokens_at_most"] == 6 * 256 * 8
    saved = {}
    for path in (out / "run" / "checkpoints").glob("checkpoint[0-9_]*.pt"):
        if not path.name.startswith(("checkpoint_best", "checkpoint_last")):
            saved[read_checkpoint(path)["optimizer_history"][-1]["num_updates"]] = path
    assert {1, 2, 3, 4, 5} <= saved.keys() and "checkpoint1.pt" in {saved[update].name for update in range(1, 6)}
    teacher = out / "teacher" / "model.pt"
    expected = {str(update): explained_variance(teacher, saved[update], text, 8) for update in range(1, 6)}
    assert report["variance_at"] == {update: pytest.approx(shares) for update, shares in expected.items()}
    assert len({shares[0] for shares in expected.values()}) == 5
    with pytest.raises(ValueError, match="checkpoints has no checkpoint after update 9; delete .*/run to train again"):
        linearization._find_checkpoint(out / "run" / "checkpoints", 9)
    (out / "report.json").unlink()
    moved = shutil.copytree(text, tmp_path / "moved")
    with pytest.raises(ValueError, match="task.data must be .*; move it back, or choose another OUT"):
        linearization.linearize(linearization.Linearization(str(encoder), str(moved), model, **values), out)


def test_the_teacher_itself_keeps_everything(encoder, text, tmp_path):
    from_transformers(str(encoder), tmp_path / "t", arch="roberta", max_positions=16)
    path = tmp_path / "t" / "model.pt"
    assert explained_variance(path, path, text, 16) == [1, 1]
    with pytest.raises(ValueError, match="between 2 and the student's 16, got 17"):
        explained_variance(path, path, text, 17)
    with pytest.raises(ValueError, match="has no valid.idx"):
        explained_variance(path, path, shutil.copytree(text, tmp_path / "text", ignore=lambda *_: ["valid.idx"]), 16)


def test_text_with_too_few_blocks_is_rejected(encoder, text, tmp_path):
    """fairseq drops a last batch whose size is not a multiple of 8."""
    lines = (text.parent.parent / "train.txt").read_text().splitlines(keepends=True)[:12]
    (tmp_path / "few.txt").write_text("".join(lines))
    tokenizer = ["--tokenizer-json", str(encoder / "tokenizer.json"), "--valid-share", "0.2"]
    main(["prepare", "pretraining", str(tmp_path / "bin"), "--source", str(tmp_path / "few.txt"), *tokenizer])
    with pytest.raises(SystemExit, match="--text must have at least 8 training blocks of 16 tokens, got "):
        run(encoder, tmp_path / "out", tmp_path / "bin" / "shard0")
    assert not (tmp_path / "out").exists()
    convert(encoder, tmp_path / "out", tmp_path / "bin" / "shard0")


def test_a_missing_gpu_is_rejected(encoder, text, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="device must be cpu"):
        run(encoder, tmp_path / "out", text, "--device", "cuda")
    assert not (tmp_path / "out").exists()


def test_wrong_inputs_are_rejected(encoder, text, mlm_data, tmp_path):
    with pytest.raises(SystemExit, match="--text must be a folder"):
        run(encoder, tmp_path / "out", tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit, match="must be that of the teacher"):
        run(encoder, tmp_path / "other", mlm_data)
    assert not (tmp_path / "other").exists()
    convert(encoder, tmp_path / "done", text)
    other = save_encoder(tmp_path / "bert", "bert", True)
    with pytest.raises(SystemExit, match="bert differs from the one that .*done was started with"):
        convert(other, tmp_path / "done", text)
    damaged = tmp_path / "damaged"
    shutil.copytree(text, damaged)
    (damaged / "valid.bin").write_bytes(b"")
    with pytest.raises(SystemExit, match="valid"):
        run(encoder, tmp_path / "other", damaged)
    assert not (tmp_path / "other").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(SystemExit, match="full must be a new or empty folder"):
        run(encoder, tmp_path / "full", text)
    with pytest.raises(SystemExit, match="short_seq_prob .* got -0.5"):
        run(encoder, tmp_path / "out", text, "--short-seq-prob", -0.5)
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit, match="moved.pt is not a file"):
        run(tmp_path / "moved.pt", tmp_path / "out", text)


def test_the_seed_determines_all_new_parameters(encoder, text, tmp_path):
    """The encoder has no head of masked language modeling, so the teacher gets a new one."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.seed()
        convert(encoder, tmp_path / name, text, "--projection-init", "normal", "--seed", seed)
    a, b, c = (read_checkpoint(tmp_path / name / "model.pt")["model"] for name in "abc")
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert {key for key in a if not torch.equal(a[key], c[key])} >= {"encoder.lm_head.dense.weight"}
    assert sha256(tmp_path / "a" / "teacher" / "model.pt") == sha256(tmp_path / "b" / "teacher" / "model.pt")


def test_only_the_same_inputs_resume(encoder, text, tmp_path, monkeypatch):
    source, out = tmp_path / "encoder", tmp_path / "out"
    shutil.copytree(encoder, source)
    convert(source, out, text)
    with pytest.raises(SystemExit, match="--text must be a folder .*nowhere"):
        convert(source, out, tmp_path / "nowhere")
    shutil.rmtree(source)
    convert(source, out, text)  # is finished
    with pytest.raises(SystemExit, match="out was converted from encoder, got .*other"):
        convert(tmp_path / "other", out, text)
    report = json.loads((out / "report.json").read_text())
    (out / "report.json").write_text(json.dumps({**report, "source": "a/encoder"}))  # a model on the hub
    convert("a/encoder", out, text)
    with pytest.raises(SystemExit, match="out was converted from a/encoder, got b/encoder"):
        convert("b/encoder", out, text)
    (out / "report.json").unlink()
    with pytest.raises(SystemExit, match="encoder is not a folder, nor a name on the hub"):
        convert(source, out, text)
    before = json.loads((out / "before.json").read_text())["shares"]
    with monkeypatch.context() as patch:  # what was measured before is not measured again
        patch.setattr(linearization, "explained_variance", None)
        convert(encoder, out, text)
    assert json.loads((out / "report.json").read_text())["variance_before"] == before
    (out / "before.json").write_text(json.dumps({"valid": "another", "shares": [0.5]}))
    (out / "report.json").unlink()
    convert(encoder, out, text)
    assert json.loads((out / "report.json").read_text())["variance_before"] == before
    (out / "report.json").unlink()
    teacher = out / "teacher" / "model.pt"
    with pytest.raises(SystemExit, match="teacher/model.pt differs from the one that .*out was started with; pass"):
        convert(teacher, out, text)  # as SOURCE
    checkpoint = read_checkpoint(teacher)
    checkpoint["model"]["encoder.lm_head.bias"] += 1
    teacher.unlink()
    write_checkpoint(checkpoint, teacher)
    with pytest.raises(SystemExit, match="teacher/model.pt differs from the one that .*out was started with"):
        convert(encoder, out, text)
    teacher.unlink()
    with pytest.raises(SystemExit, match="the teacher .*model.pt is missing; restore it, or choose another OUT"):
        convert(encoder, out, text)


@pytest.mark.parametrize(
    "damage, named",
    [
        (
            lambda out, text: (text / "valid.bin").write_bytes(b"0"),
            "valid.bin is not the one that .*out was measured on",
        ),
        (lambda out, text: (text / "train.bin").write_bytes(b"0"), "differs from the one that .*out was started with"),
        (
            lambda out, text: (out / "report.json").write_text("{"),
            "report.json is missing or damaged; restore it, or delete it and rerun",
        ),
    ],
    ids=["valid", "train", "report"],
)
def test_a_report_of_other_inputs_is_rejected(damage, named, encoder, text, tmp_path):
    text = shutil.copytree(text.parent, tmp_path / "text") / text.name
    convert(encoder, tmp_path / "out", text)
    damage(tmp_path / "out", text)
    with pytest.raises(SystemExit, match=named):
        convert(encoder, tmp_path / "out", text)


def test_a_made_up_teacher_is_rejected(encoder, text, tmp_path):
    """Positions that the encoder lacks would repeat those that it has."""
    with pytest.raises(SystemExit, match="max_positions must be at most the 32 .* got 999"):
        main(["linearize", str(encoder), str(tmp_path / "out"), "--text", str(text), "--max-positions", "999"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("measure_at", [(5, 3), (3, 7), (0,), (9,)])
def test_wrong_updates_to_measure_at(measure_at):
    with pytest.raises(ValueError, match="measure_at must"):
        linearization.Linearization("source", "text", {}, max_update=9, measure_at=measure_at)


def test_a_student_of_another_shape_is_rejected(encoder, text, tmp_path):
    from_transformers(str(encoder), tmp_path / "t", arch="roberta", max_positions=16)
    teacher = tmp_path / "t" / "model.pt"
    checkpoint = read_checkpoint(teacher)
    checkpoint["model"] = {key: value for key, value in checkpoint["model"].items() if ".layers.1." not in key}
    checkpoint["cfg"]["model"] = {**get_cfg_section(checkpoint, "model"), "encoder_layers": 1}
    write_checkpoint(checkpoint, tmp_path / "t" / "small.pt")
    with pytest.raises(ValueError, match="small.pt must have the teacher's 2 layers of width 16, got 1 of width 16"):
        explained_variance(teacher, tmp_path / "t" / "small.pt", text, 16)


def test_a_fairseq_checkpoint_is_its_own_teacher(encoder, text, tmp_path):
    from_transformers(str(encoder), tmp_path / "t", arch="roberta", max_positions=16)
    convert(tmp_path / "t" / "model.pt", tmp_path / "out", text)
    assert not (tmp_path / "out" / "teacher").exists()
    state = read_checkpoint(tmp_path / "out" / "model.pt")["model"]
    teacher = read_checkpoint(tmp_path / "t" / "model.pt")["model"]
    assert all(torch.equal(state[key], value) for key, value in teacher.items())
    with pytest.raises(SystemExit, match="max_positions must be at most the 16 of .*model.pt, got 32"):
        run(tmp_path / "t" / "model.pt", tmp_path / "long", text, "--max-positions", 32, "--tokens-per-sample", 16)
    assert not (tmp_path / "long").exists()


def test_a_run_of_an_earlier_version_resumes_with_its_options(encoder, text, tmp_path):
    """Its origin lacks options that are younger."""
    out, options = tmp_path / "out", ["--projection-init", "staggered"]
    convert(encoder, out, text, *options)
    origin = json.loads((out / "origin.json").read_text())
    younger = ("projection_init", "short_seq_prob", "measure_at", "teacher_sha256")
    earlier = {key: value for key, value in origin.items() if key not in younger}
    del earlier["text"]["train.bin"]
    (out / "origin.json").write_text(json.dumps(earlier))
    convert(encoder, out, text, *options)
    with pytest.raises(SystemExit, match="projection_init of .* must be staggered, got graded"):
        convert(encoder, out, text)
    (out / "report.json").unlink()
    (out / "origin.json").write_text(json.dumps({**earlier, "max_update": 3, "batch_size": 4}))
    with pytest.raises(SystemExit, match="short_seq_prob of .* must be 0.0, got 0.5"):
        run(encoder, out, text, *options, "--max-update", 3)
