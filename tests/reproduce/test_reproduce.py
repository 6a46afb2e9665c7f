"""``fairseq-linformer reproduce``: what it measures, goes on with, verifies and refuses. All at smoke scale."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduce import curves_of, ledger, run_of_plan, runner, scales, training_plan, untrained
from fairseq_linformer.reproduce.catalogue import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def command(capsys, tmp_path):
    def command(*words):
        try:
            main(["reproduce", *map(str, words)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    (tmp_path / "ledger").mkdir()
    return command


@pytest.fixture
def smoke(command, tmp_path):
    """What is counted at once has no runs."""
    runs = lambda name: [] if name in untrained.COUNTED else ["--runs", tmp_path / "runs"]  # noqa: E731
    return lambda *words: command(*words, "--scale", "smoke", *runs(words[0]), "--ledger", tmp_path / "ledger")


@pytest.mark.parametrize("words, said", [
    (["figure-9"], "figure-9 is no experiment; it must be one of figure-3a, figure-3b, .*, table-2, .*, or list"),
    ([], "no experiment is given; `fairseq-linformer reproduce list` has all"),
    (["figure-3a", "--scale", "huge"], "--scale is huge; it must be one of smoke, cpu, gpu, paper"),
    (["figure-3a", "--minutes", "0"], "--minutes is 0.0; it must be above 0"),
    (["figure-3a", "--minutes", "nan"], "--minutes is nan; it must be above 0"),
    (["figure-3a"], "figure-3a trains, and --text is not given; a folder of `fairseq-linformer prepare pretraining` is wanted"),
    (["figure-3a", "--text", "nowhere"], "--text is nowhere; there is no dict.txt in nowhere"),
    (["parameters", "--text", "nowhere"], "--text is nowhere; parameters reads none"),
    (["figure-3a", "--tasks", "nowhere"], "figure-3a trains, and --text is not given"),
    (["parameters", "--tasks", "nowhere"], "--tasks is nowhere; parameters reads none"),
    (["table-2", "--text", "nowhere"], "table-2 trains, and --tasks is not given; a folder of `fairseq-linformer prepare TASK` is wanted"),
    (["theorem-1", "--minutes", "3"], "--minutes is given; theorem-1 is measured in one piece"),
    (["theorem-1", "--scale", "gpu"], "theorem-1 has no scale gpu; it has smoke, cpu"),
    (["figure-1"], "figure-1 is measured by scripts/analysis.sh"),
    (["theorem-1", "--scale", "paper"], "theorem-1 has no paper scale; figure-3a, .*, table-2 have"),
    (["figure-3a", "--scale", "paper", "--minutes", "1"], "--minutes is given with --scale paper; Slurm has --time"),
    (["figure-3a", "--scale", "paper"], "figure-3a trains, and --text is not given"),
    (["figure-3a", "--dry-run"], "--dry-run is given; it is for --scale paper"),
    (["figure-3a", "--ledger", "nowhere"], "--ledger is nowhere; a folder that can be written is wanted"),
    (["--verify", "lost"], "--verify is lost; there is no entry .*lost.json"),
    (["--verify", "lost", "--scale", "cpu"], "--scale is given with --verify lost; an entry says what it is of"),
    (["list", "--minutes", "3"], "--minutes is given with list, which measures nothing"),
    (["list", "--ledger", "nowhere"], "--ledger is nowhere; there is no such folder"),
    (["list", "--text", ""], "--text is given with list, which measures nothing"),
    (["list", "--runs", "nowhere"], "--runs is given with list, which measures nothing"),
    (["parameters"], "--runs is .*runs; parameters has none, it is counted at once"),
    (["figure-3a", "--text", "two:folders"], "--text is two:folders; there is a ':' in its path, which for fairseq stands between two folders"),
    (["figure-3a", "--text", "${x}"], r"--text is \$\{x\}; there is a '\$\{' in its path, which for hydra begins the name of an option"),
    (["figure-3a", "--scale", "paper", "--text", RESULTS, "--ledger", "nowhere"], "there is no dict.txt in|--ledger is nowhere; a folder that can be written is wanted"),
    (["figure-3a", "--text", "two\nlines"], "--text is two lines; there is no dict.txt in two lines"),
    (["--verify", "../results/theorem-1-smoke"], "--verify is ../results/theorem-1-smoke; the name of an entry is of lower-case letters, digits and hyphens"),
    (["--verify", "theorem-1-smoke", "--ledger", RESULTS], "--runs is .*runs; theorem-1 is measured again from the beginning, in a folder of its own"),
    (["table-2", "--scale", "paper", "--text", "nowhere"], "--text is given; table-2 finetunes what is trained, and reads --tasks"),
    (["figure-3a", "--verify", "lost"], "figure-3a is given beside --verify lost; an entry says what it is of"),
])  # fmt: skip
def test_bad_input_is_one_clear_sentence(command, tmp_path, words, said):
    given = ["--ledger", tmp_path / "ledger", *words] if "--ledger" not in words else words
    ended = command(*given, *["--runs", tmp_path / "runs"] * (words[:1] != ["list"] or "--runs" in words))
    assert ended.startswith("fairseq-linformer: ") and "\n" not in ended
    assert re.search(said, ended)
    assert not list((tmp_path / "ledger").iterdir()) and not (tmp_path / "runs").exists()  # nor the rules, which are those of a run that began


def test_what_is_counted_is_the_same_again(smoke, command, tmp_path):
    said = smoke("parameters")
    assert "sharing: holds at scale smoke" in said and "headwise: 24 matrices (paper: 24)" in said
    entry = ledger.read(tmp_path / "ledger/parameters-smoke.json")
    assert entry.measured["layerwise: matrices"].value == 1 and entry.measured["none: matrices"].value == 288
    assert entry.command == "fairseq-linformer reproduce parameters --scale smoke"
    verify = ("--verify", "parameters-smoke", "--ledger", tmp_path / "ledger")
    assert "13 of 13 numbers compared, all are within their tolerance" in command(*verify)

    path = tmp_path / "ledger/parameters-smoke.json"
    edited = json.loads(path.read_text())
    edited["measured"]["key-value: matrices"]["value"] += 1  # by hand
    path.write_text(json.dumps(edited))
    assert "was changed after it was written" in command(*verify)
    del edited["seal"]
    path.write_text(json.dumps(edited))
    assert "was changed after it was written" in command(*verify) and "was changed after it was written" in smoke("parameters")
    for broken, problem in (({**edited, "command": ""}, "has no command"), ({**edited, "identifier": "other"}, "calls itself other")):
        path.write_text(json.dumps(broken))
        assert problem in command(*verify)

    other = replace(entry, measured={**entry.measured, "key-value: matrices": replace(entry.measured["key-value: matrices"], value=13)})
    ledger.write(other, path.parent)
    assert "1 of 13 numbers differ by more than they may: key-value: matrices was 13 and is 12 matrices, which may differ by 0 %" in command(*verify)
    before = path.read_bytes()
    assert "is of another measurement; nothing is overwritten" in smoke("parameters") and path.read_bytes() == before
    ledger.write(replace(other, configuration={**other.configuration, "tolerance": {}}), path.parent)
    assert "states a tolerance of none of its numbers" in command(*verify)
    without = {name: value for name, value in other.configuration.items() if name != "tolerance"}
    ledger.write(replace(other, configuration=without), path.parent)
    assert "states no tolerance" in command(*verify)


@pytest.mark.parametrize("experiment, identifier, compared", [("table-1", "benchmark-scaling-cpu-fp32-l1-d64-k16-smoke", 3),
                                                              ("figure-2", "benchmark-pertoken-cpu-fp32-l1-d64-k16-smoke", 1),
                                                              ("table-3", "benchmark-inference-cpu-fp32-l1-d64-smoke", 6)])  # fmt: skip
def test_what_is_timed_is_verified(smoke, command, tmp_path, monkeypatch, experiment, identifier, compared):
    """Ratios and exponents are compared; microseconds are those of the machine."""
    monkeypatch.setattr(untrained, "TIMES", 1e6)  # that they agree is for a quiet machine
    monkeypatch.setattr(untrained, "EXPONENTS", 1e6)
    assert "ledger: " in smoke(experiment)
    entry = ledger.read(tmp_path / "ledger" / f"{identifier}.json")
    verify = ("--verify", identifier, "--ledger", tmp_path / "ledger")
    assert f"{compared} of {len(entry.measured)} numbers compared" in command(*verify)
    name, m = next((name, m) for name, m in entry.measured.items() if m.unit in entry.configuration["tolerance"])
    ledger.write(replace(entry, measured={**entry.measured, name: replace(m, value=m.value + 2, spread=m.spread and [m.value, m.value + 2])},
                         configuration={**entry.configuration, "tolerance": {m.unit: 0.001}}), tmp_path / "ledger")  # fmt: skip
    assert f"{name} was " in command(*verify)


@pytest.mark.parametrize("identifier", ["parameters-cpu", "operations-cpu", "theorem-1-smoke"])
def test_committed_entries_are_measured_again(command, identifier):
    assert f"{identifier}, measured again: " in command("--verify", identifier, "--ledger", RESULTS)


def test_operations_and_theorems(smoke, command, tmp_path):
    assert "table-1-operations: not enough evidence at scale smoke" in smoke("operations")  # so short that attention is the least of it
    entry = ledger.read(tmp_path / "ledger/operations-smoke.json")
    # A layer: four maps d x d, two d x 4 d, and per token 2 n d for Q K^T and as much for P V; two operations each.
    d = 64
    assert entry.measured["n=128: transformer"].value == 2 * (4 * d * d + 8 * d * d + 2 * 128 * d)
    # Of the Linformer the maps of keys and values are of k rows, 4 k d^2 a sentence, and E x, Q K^T and P V take 6 k d a token.
    for n, k in ((128, 16), (256, 16)):
        assert entry.measured[f"n={n}: linformer"].value == 20 * d * d + 4 * k * d * d / n + 6 * k * d
    assert "all are within" in command("--verify", "operations-smoke", "--ledger", tmp_path / "ledger")
    assert "theorem-1:" in smoke("theorem-1")
    assert ledger.read(tmp_path / "ledger/theorem-1-smoke.json").scale == "smoke"
    assert "theorem-1-smoke, measured again: " in command("--verify", "theorem-1-smoke", "--ledger", tmp_path / "ledger")
    where = tmp_path / "runs/smoke/theorems/theorems.json"
    where.write_text(json.dumps({**json.loads(where.read_text()), "commit": "that of the numbers"}))
    assert "theorem-2:" in smoke("theorem-2") and ledger.read(tmp_path / "ledger/theorem-2-smoke.json").commit == "that of the numbers"
    rows = [line.split() for line in command("list", "--ledger", tmp_path / "ledger").splitlines()]
    assert {row[0] for row in rows} == set(EXPERIMENTS)
    assert next(row for row in rows if row[:2] == ["theorem-1", "smoke"])[-1] == "theorem-1-smoke"
    assert next(row for row in rows if row[:2] == ["figure-3a", "cpu"])[-2:] == ["not", "measured"]
    assert next(" ".join(row) for row in rows if row[:2] == ["figure-3a", "cpu"]).startswith("figure-3a cpu 27 runs, 17,400 updates, 35.6 M tokens")


@pytest.mark.parametrize("name", training_plan.EXPERIMENTS)
def test_every_run_can_be_configured(name, mlm_data, tmp_path, monkeypatch):
    """At every scale: composed as fairseq will have it, with starts that are there."""
    monkeypatch.setattr(run_of_plan, "start_of", lambda run, runs: tmp_path / "start.pt")
    (tmp_path / "start.pt").touch()
    for sizes in scales.SCALES.values():
        for run in training_plan.in_turn(training_plan.measured_runs(name, sizes)):
            if run.seed > 1:
                continue
            cfg = run_of_plan.training(run, sizes, tmp_path, mlm_data).composed
            assert cfg.dataset.batch_size * cfg.task.tokens_per_sample == sizes.tokens and cfg.common.seed == run.seed
            assert (cfg.lr_scheduler._name == "polynomial_decay") == run.decays and cfg.optimization.max_update == run.updates
            assert cfg.model._name == ("roberta" if run.model.k is None else "linformer_roberta") and cfg.model.encoder_layers == sizes.layers
            if run.model.k:
                m = run.model
                assert (cfg.model.projected_dim, cfg.model.sharing, cfg.model.projection) == (m.k, m.sharing, m.projection)
            assert (cfg.checkpoint.finetune_from_model is None) == (run.start is None)
            assert (cfg.common.bf16, cfg.common.cpu) == (sizes.device == "gpu", sizes.device == "cpu")


@pytest.mark.slow
def test_an_experiment_that_trains(smoke, command, mlm_data, tmp_path, monkeypatch):
    """Stopped and gone on with, to an entry that is verified; finished runs are not run again; another configuration is refused."""
    text = ("--text", mlm_data)
    said = smoke("scratch", *text, "--minutes", 1e-4)
    assert said.startswith("scratch: time is up, 3 runs are left of at most 18 updates, roberta-n16-scratch/seed1 first")
    assert (tmp_path / "runs/smoke/roberta-n16-scratch/seed1/stopped").exists() and not list((tmp_path / "ledger").iterdir())
    assert "scratch: not enough evidence at scale smoke" in smoke("scratch", *text)  # one seed, and nothing learnt
    entry = ledger.read(tmp_path / "ledger/scratch-smoke.json")
    assert {"roberta: perplexity", "k=4: bits", "k=8, seed 1: bits", "plateau: bits"} <= set(entry.measured)
    assert [u for u, _ in entry.curves["k=4, seed 1"]] == [2, 4, 6] and entry.commit and entry.seconds > 0 and "train.bin" in entry.data
    bits = entry.measured["k=4: bits"].value
    assert entry.measured["k=4: perplexity"].value == pytest.approx(2**bits, rel=1e-4)

    verify = ("--verify", "scratch-smoke", "--ledger", tmp_path / "ledger", "--runs", tmp_path / "runs")
    with monkeypatch.context() as patched:
        patched.setattr(runner.run_of_plan, "train", lambda *_: pytest.fail("a finished run was run again"))
        before = (tmp_path / "ledger/scratch-smoke.json").read_bytes()
        smoke("scratch", *text)
        assert (tmp_path / "ledger/scratch-smoke.json").read_bytes() == before
        assert "scratch-smoke, of 3 finished runs that were judged again: 10 of 10 numbers compared, all are within their tolerance (perplexity 1 %, bits 1 %)" in command(*verify, *text)

    # What would be refused in the end is refused before it is trained.
    elsewhere = ("scratch", "--scale", "smoke", "--ledger", tmp_path / "ledger", "--runs", tmp_path / "elsewhere", *text)
    assert "scratch-smoke is in " in (said := command(*elsewhere)) and "--verify scratch-smoke measures it again, or give another --ledger" in said
    other = tmp_path / "other text"
    shutil.copytree(mlm_data, other)
    (other / "valid.bin").write_bytes((other / "valid.bin").read_bytes()[::-1])
    assert command(*elsewhere[:-1], "nowhere").endswith("there is no dict.txt in nowhere, as `fairseq-linformer prepare pretraining` writes it")
    assert command(*elsewhere[:-2]).endswith("a folder of `fairseq-linformer prepare pretraining` is wanted")
    said = command(*elsewhere[:-1], other)
    assert "scratch-smoke is of other data: " in said and said.endswith("; nothing is overwritten, give another --ledger") and not (tmp_path / "elsewhere").exists()

    # The checkpoint is asked, not what was written of it: a number that is wrong in both is found.
    run = tmp_path / "runs/smoke/linformer-n16-k4-headwise-average-scratch/seed1"
    written = json.loads((run / "perplexity.json").read_text())
    told = {name: value for name, value in {**written, "bits": bits + 1}.items() if name != "seal"}
    (run / "perplexity.json").write_text(json.dumps({**told, "seal": ledger.sum_of(told)}))
    wrong = {"k=4: bits": replace(entry.measured["k=4: bits"], value=bits + 1)}
    ledger.write(replace(entry, measured={**entry.measured, **wrong}), tmp_path / "ledger")
    assert "1 of 10 numbers differ by more than they may: k=4: bits was" in command(*verify, *text)
    (run / "perplexity.json").write_text(json.dumps(written))
    ledger.write(entry, tmp_path / "ledger")
    (run / "done").rename(run / "was done")
    assert runner.finished(entry, tmp_path / "runs") == [True, False, True]
    (run / "was done").rename(run / "done")

    # The curve is the same from TensorBoard and from the log; one that is cut short is told.
    run = tmp_path / "runs/smoke/roberta-n16-scratch/seed1"
    logged = curves_of.from_log(run)
    assert [(u, pytest.approx(v, abs=2e-3)) for u, v in logged] == curves_of.validation(run, 6)
    with pytest.raises(ValueError, match="is cut short: it ends at update 6 of 12$"):
        curves_of.validation(run, 12)
    shutil.rmtree(run / "tensorboard")
    assert curves_of.validation(run, 6) == logged
    shutil.rmtree(run / "logs")
    with pytest.raises(ValueError, match="has no validation curve"):
        curves_of.validation(run, 6)

    judged = json.loads((run / "perplexity.json").read_text())
    del judged["seal"]
    for changed in ({"text": {"valid.bin": "0"}}, {"checkpoint": "0"}):
        found = {**judged, **changed}
        (run / "perplexity.json").write_text(json.dumps({**found, "seal": ledger.sum_of(found)}))
        assert f"perplexity.json is of another {[*changed][0]}; remove it" in smoke("scratch", *text)
    odd = [{**judged, **changed} for changed in ({"bits": "x"}, {"bits": [1]}, {"bits": float("nan")})] + [{"perplexity": 2.0, "bits": 1.0}]
    sealed = [json.dumps({**found, "seal": ledger.sum_of(found)}) for found in odd]
    for broken in (*sealed, "{", "[]", json.dumps(judged), json.dumps({**judged, "bits": 0.1, "seal": ledger.sum_of(judged)})):
        (run / "perplexity.json").write_text(broken)
        assert "perplexity.json is not what was written; remove it" in smoke("scratch", *text)
    (run / "perplexity.json").unlink()
    shutil.copy(tmp_path / "runs/smoke/linformer-n16-k4-headwise-average-scratch/seed1/checkpoints/checkpoint_last.pt", run / "checkpoints")
    assert "checkpoint_last.pt is of another run: its model.projected_dim is 4, that of " in smoke("scratch", *text)

    # What a run was made of: a text that changed under its name, another plan, a start that is not the one that it had.
    changed = tmp_path / "changed"
    shutil.copytree(mlm_data, changed)
    (tmp_path / "another").mkdir()
    anew = ("scratch", "--scale", "smoke", "--text", changed, "--runs", tmp_path / "new", "--ledger", tmp_path / "another")
    assert "time is up" in command(*anew, "--minutes", 1e-4)
    (changed / "valid.bin").write_bytes((changed / "valid.bin").read_bytes()[::-1])
    assert "seed1 is of another text; move it away" in command(*anew)
    assert "scratch-smoke is of other data" in command(*verify, "--text", changed)
    sizes = scales.SCALES["smoke"]
    monkeypatch.setitem(scales.SCALES, "smoke", replace(sizes, lr=0.5))
    assert "scratch-smoke is of another plan than today's scratch at scale smoke, in its sizes" in command(*verify, *text)


def test_what_a_run_was_made_of(mlm_data, tmp_path):
    """Its plan and that of what it starts from, the text, and the checkpoint itself."""
    sizes = scales.SCALES["smoke"]
    run = training_plan.compared(training_plan.Model(16, 8))(sizes, 1)
    for of_it in (run.start, run):
        folder = tmp_path / of_it.name
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "config.yaml").touch()
        (folder / "checkpoints/checkpoint_last.pt").write_text("weights")
        with pytest.raises(ValueError, match="does not say what it was made of; move it away"):
            run_of_plan.check_origin(of_it, tmp_path, mlm_data)
        (folder / ".origin.json").write_text(json.dumps(run_of_plan.origin(of_it, tmp_path, mlm_data)))
        if of_it.start:
            with pytest.raises(ValueError, match="was trained, and .*roberta-n16-scratch/seed1 that it starts from is not"):
                run_of_plan.check_origin(of_it, tmp_path, mlm_data)
            (tmp_path / run.start.name / "done").touch()
        run_of_plan.check_origin(of_it, tmp_path, mlm_data)
    with pytest.raises(ValueError, match="seed1 is of another plan: models or updates differ; move it away"):
        run_of_plan.check_origin(replace(run, start=replace(run.start, updates=7)), tmp_path, mlm_data)
    (tmp_path / run.start.name / "checkpoints/checkpoint_last.pt").write_text("others")
    with pytest.raises(ValueError, match="seed1 is of another start; move it away"):
        run_of_plan.check_origin(run, tmp_path, mlm_data)


def test_a_start_is_made_anew_for_a_run_that_was_moved_away(mlm_data, masked_lm, tmp_path):
    """As the sentence on a run of something else tells a person to do; and for one that was stopped before it began."""
    sizes = scales.SCALES["smoke"]
    grown = training_plan.Run(training_plan.Model(32), 1, "grown", sizes.grown, training_plan.Run(training_plan.Model(16), 1, "scratch", sizes.base))
    last = tmp_path / grown.start.name / "checkpoints/checkpoint_last.pt"
    last.parent.mkdir(parents=True)
    shutil.copy(masked_lm / "checkpoint_last.pt", last)
    run_of_plan.make_start(grown, tmp_path)
    start = run_of_plan.start_of(grown, tmp_path)
    made = start.read_bytes()
    start.write_bytes(b"of another")
    run_of_plan.make_start(grown, tmp_path)  # nothing has begun from it
    assert start.read_bytes() == made
    folder = tmp_path / grown.name
    folder.mkdir(parents=True)
    (folder / ".origin.json").touch()
    start.write_bytes(b"of another")
    run_of_plan.make_start(grown, tmp_path)  # killed before it began
    assert start.read_bytes() == made
    (folder / "config.yaml").touch()
    start.write_bytes(b"it has begun from this")
    run_of_plan.make_start(grown, tmp_path)
    assert start.read_bytes() == b"it has begun from this"


@pytest.mark.slow
def test_table_2(smoke, command, pieces, glue, tmp_path, monkeypatch):
    """Pretrained, finetuned with and without what was learnt, in pieces; then the same again. One task; the others differ in their data."""
    sizes = scales.SCALES["smoke"]
    monkeypatch.setitem(scales.SCALES, "smoke", replace(sizes, table_2=replace(sizes.table_2, epochs={"sst-2": 1})))
    words = ("table-2", "--text", pieces, "--tasks", tmp_path)
    assert f"--tasks is {tmp_path}; there is no sst-2 in it" in smoke(*words)
    main(["prepare", "sst-2", str(tmp_path / "sst-2"), "--source", str(glue), "--sentencepiece", str(pieces / "sentencepiece.bpe.model"), "--max-positions", "16"])
    with monkeypatch.context() as patched:
        small = scales.SCALES["smoke"]
        patched.setitem(scales.SCALES, "smoke", replace(small, table_2=replace(small.table_2, stages=((8, 3),))))
        assert smoke(*words).endswith(f"sst-2 has rows of up to 16 positions, the model has 8; prepare it anew, in another folder; a model of n = 8 takes {tmp_path}/sst-2-n8 if that is there")
    dictionary = tmp_path / "sst-2/input0/dict.txt"
    right = dictionary.read_text()
    dictionary.write_text(right.replace("a", "b", 1))
    assert "is not the dictionary of --text" in smoke(*words)
    dictionary.write_text(right)
    assert "table-2, pretraining: time is up, 4 runs are left" in smoke(*words, "--minutes", 1e-4)
    said = smoke(*words)
    assert "table-2: not enough evidence at scale smoke" in said
    entries = {path.stem: ledger.read(path) for path in (tmp_path / "ledger").iterdir()}
    assert set(entries) == {f"finetuning-sst-2-{model}{end}-smoke" for model in ("linformer", "roberta") for end in ("", "-from-scratch")}
    stands_for = {name: (entry.paper["value"], entry.paper["where"].split(";")[0]) for name, entry in entries.items()}
    assert stands_for["finetuning-sst-2-linformer-smoke"] == (93.2, "Table 2, 512, Linformer, 256") and stands_for["finetuning-sst-2-roberta-smoke"][0] == 93.1
    assert stands_for["finetuning-sst-2-roberta-from-scratch-smoke"] == (None, "Table 2, no such row")
    one = entries["finetuning-sst-2-linformer-smoke"].configuration
    assert (one["experiment"], one["model"]["projected_dim"], one["model"]["max_positions"], one["sizes"]["stages"]) == ("table-2", "8", 16, [[8, 3], [16, 3]])
    verify = ("--verify", "finetuning-sst-2-linformer-smoke", "--ledger", tmp_path / "ledger", "--runs", tmp_path / "runs")
    assert "finetuning-sst-2-linformer-smoke, of 1 finished runs that were judged again:" in command(*verify, *words[1:])

    # Another model: what is measured stays as it is.
    before = {path: path.read_bytes() for path in (tmp_path / "ledger").iterdir()}
    prepare = ["--source", str(glue), "--sentencepiece", str(pieces / "sentencepiece.bpe.model"), "--max-positions", "32"]
    main(["prepare", "sst-2", str(tmp_path / "sst-2-n32"), *prepare])
    with monkeypatch.context() as patched:
        small = scales.SCALES["smoke"]
        patched.setitem(scales.SCALES, "smoke", replace(small, table_2=replace(small.table_2, linformers=((16, 8, "headwise"), (32, 8, "layerwise")))))
        smoke(*words)
        new = tmp_path / "ledger/finetuning-sst-2-linformer-n32-k8-layerwise-smoke.json"
        assert set((tmp_path / "ledger").iterdir()) == {*before, new} and all(path.read_bytes() == was for path, was in before.items())
        other = ledger.read(new).configuration
        assert f"data: {tmp_path}/sst-2-n32\n" in (tmp_path / "runs/smoke/table-2/finetuned/sst-2-linformer-n32-k8-layerwise-seed1/config.yaml").read_text()
        assert {path.name for path in (tmp_path / "runs/smoke/rules").iterdir()} == {f"table-2-{name}.json" for name in ("roberta", "linformer", "linformer-n32-k8-layerwise")}
        assert ledger.read(new).paper["where"].startswith("Table 2, 1024, Linformer, 256, shared kv, layer; ") and ledger.read(new).paper["value"] == 93.2
        assert (other["model"]["max_positions"], other["model"]["sharing"], [*other["runs"]]) == (32, "layerwise", ["linformer-n32-k8-layerwise"])
    assert "layerwise-smoke is of a model or task that table-2 at scale smoke has not any more" in smoke(*words)
    new.unlink()

    entry = entries["finetuning-sst-2-linformer-smoke"]
    (result,) = (tmp_path / "runs/smoke/table-2/finetuned/sst-2-linformer-seed1").glob("result.json")
    written, accuracy = result.read_text(), entry.measured["valid accuracy"]
    result.write_text(written.replace('"accuracy"', '"accuracy_once"'))  # what was written of it is not asked
    ledger.write(replace(entry, measured={**entry.measured, "valid accuracy": replace(accuracy, value=accuracy.value + 7)}), tmp_path / "ledger")
    assert "valid accuracy was " in command(*verify, *words[1:])
