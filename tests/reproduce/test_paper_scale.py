"""The paper's runs on a cluster: submitted, and once they are trained read back into the ledger."""

import json
import shutil

import pytest
from omegaconf import OmegaConf

from fairseq_linformer.cli import main
from fairseq_linformer.finetuning.finetune import finetune
from fairseq_linformer.launching.run_folder import record_attempt
from fairseq_linformer.planning.configs import compose_config
from fairseq_linformer.reproduce import ledger, paper_scale, trained
from fairseq_linformer.reproduce.paper_scale import FIGURES, TABLE_2, finetuning_grid, finetunings

from ..launching.jobs import ROOT


@pytest.fixture
def paper(monkeypatch, capsys, tmp_path):
    """``reproduce NAME --scale paper`` from the root of the repository, with a stand-in for sbatch."""
    monkeypatch.chdir(ROOT)
    for name in ("NODES", "NTASKS_PER_NODE", "RUNS", "NAME", "CONFIG", "PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(trained, "check_last", lambda run: None)  # a tiny model stands for all of them
    sbatch = tmp_path / "bin/sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho Submitted batch job 7\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/usr/bin:/bin")
    (tmp_path / "ledger").mkdir()

    def paper(name, *words):
        try:
            main(["reproduce", name, "--scale", "paper", "--runs", str(tmp_path / "runs"), "--ledger", str(tmp_path / "ledger"), *map(str, words)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return paper


def finished(folder, checkpoint, data, updates=2):
    """A run folder as a job leaves it."""
    (folder / "checkpoints").mkdir(parents=True)
    shutil.copy(checkpoint, folder / "checkpoints/checkpoint_last.pt")
    cfg = compose_config("configs/pretrain/base.yaml", [f"+run={folder.name}", f"task.data={data}", f"optimization.max_update={updates}"])
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg))
    (folder / "logs/7").mkdir(parents=True)
    lines = [{"epoch": 1, "valid_loss": f"{9 - at}", "valid_num_updates": f"{at}"} for at in range(1, updates + 1)]
    (folder / "logs/7/rank-0.txt").write_text("".join(f"2026-01-01 | INFO | valid | {json.dumps(line)}\n" for line in lines))
    record_attempt(folder, 64)
    (folder / "done").touch()


def test_a_figure_is_submitted_and_once_it_is_trained_it_is_in_the_ledger(paper, masked_lm, pieces, tmp_path, monkeypatch):
    runs, *others = FIGURES["figure-3c"].values()
    assert "Submitted batch job 7" in paper("figure-3c", "--text", pieces)
    assert "a dry run: nothing was submitted" in paper("figure-3c", "--text", pieces, "--dry-run")
    assert (tmp_path / "runs/paper/rules/figure-3c.json").exists()
    for run in (runs, *others):
        assert not list((tmp_path / "ledger").iterdir())
        finished(tmp_path / "runs" / run, masked_lm / "checkpoint_last.pt", pieces)
    assert "--dry-run is given, and all is trained" in paper("figure-3c", "--text", pieces, "--dry-run")
    said = paper("figure-3c", "--text", pieces)
    assert "figure-3c: not enough evidence at scale paper" in said and "figure-3c-paper has no perplexity of none" in said
    entry = ledger.read(tmp_path / "ledger/figure-3c-paper.json")
    assert {f"{name}: perplexity" for name in FIGURES["figure-3c"]} <= set(entry.measured) and entry.measured["plateau: bits"].unit == "bits"
    assert entry.scale == "paper" and entry.curves["headwise, seed 1"] == [[1, 8.0], [2, 7.0]]
    assert entry.configuration["runs"]["headwise"]["n"] == entry.configuration["n"] == 512
    assert set(entry.configuration["rules"]) == {"figure-3c"}
    monkeypatch.setattr(trained, "measure", None)  # judged once
    assert "ledger:" in paper("figure-3c", "--text", pieces) and ledger.read(tmp_path / "ledger/figure-3c-paper.json") == entry
    assert "is of the paper scale, whose runs are Slurm's" in verified(tmp_path, pieces)


def verified(tmp_path, text):
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--verify", "figure-3c-paper", "--ledger", str(tmp_path / "ledger"), "--runs", str(tmp_path / "runs"), "--text", str(text)])
    return str(end.value.code)


def test_runs_that_were_submitted_one_by_one_say_no_rules_and_the_text_may_be_a_link(paper, masked_lm, pieces, tmp_path):
    for run in FIGURES["figure-3c"].values():
        finished(tmp_path / "runs" / run, masked_lm / "checkpoint_last.pt", pieces)
    (tmp_path / "link").symlink_to(pieces)
    assert "ledger:" in paper("figure-3c", "--text", tmp_path / "link")
    assert "rules" not in ledger.read(tmp_path / "ledger/figure-3c-paper.json").configuration and not (tmp_path / "runs/paper").exists()


def test_what_has_no_paper_scale(paper, pieces):
    assert paper("theorem-1").endswith("theorem-1 has no paper scale; figure-3a, figure-3b, figure-3c, figure-3d, table-2 have")


def test_a_run_that_was_trained_on_something_else_or_ended_early_is_refused(paper, masked_lm, pieces, tmp_path):
    for run in FIGURES["figure-3c"].values():
        finished(tmp_path / "runs" / run, masked_lm / "checkpoint_last.pt", pieces)
    shutil.copytree(pieces, tmp_path / "other")
    assert "was trained on" in (said := paper("figure-3c", "--text", tmp_path / "other")) and f"--text has {tmp_path}/other" in said
    config = tmp_path / "runs" / run / "config.yaml"
    whole = config.read_text()
    config.write_text(whole[: len(whole) // 2] + "\n: [")
    assert f"{config} is no configuration" in paper("figure-3c", "--text", pieces)
    config.write_text(whole.replace("sharing: layerwise", "sharing: headwise"))
    assert f"{config.parent} was trained with model.sharing=headwise, and n512-k256-layerwise has layerwise; give another --runs" in paper("figure-3c", "--text", pieces)
    config.write_text(whole)
    log = tmp_path / "runs" / run / "logs/7/rank-0.txt"
    log.write_text(log.read_text().splitlines()[0] + "\n")
    assert "is cut short: it ends at update 1 of 2" in paper("figure-3c", "--text", pieces)
    assert not list((tmp_path / "ledger").iterdir())


def tasks_of(tmp_path, glue, pieces):
    tokenizer = str(pieces / "sentencepiece.bpe.model")
    main(["prepare", "sst-2", str(tmp_path / "tasks/sst-2"), "--source", str(glue), "--sentencepiece", tokenizer, "--max-positions", "16"])
    return tmp_path / "tasks"


def test_the_finetuning_grid_of_table_2(paper, masked_lm, pieces, glue, tmp_path, monkeypatch):
    monkeypatch.setattr(paper_scale, "COLUMNS", ("sst-2",))
    assert "--tasks is not given" in paper("table-2")
    assert "there is no sst-2 in it" not in (said := paper("table-2", "--tasks", tmp_path)) and "n512-roberta is not trained to its end" in said
    for run in TABLE_2:
        finished(tmp_path / "runs" / run, masked_lm / "checkpoint_last.pt", pieces)
    assert f"--tasks is {tmp_path}; there is no sst-2 in it" in paper("table-2", "--tasks", tmp_path)
    tasks = tasks_of(tmp_path, glue, pieces)
    shutil.copytree(tasks / "sst-2", tasks / "sst-2-n1024")
    grid = finetuning_grid(tmp_path / "runs", tasks)
    assert len(grid) == len({tuple(member) for member in grid}) == 10 * 3 * 2 * 3
    assert sum("sst-2-n1024" in word for member in grid for word in member) == 3 * 3 * 2 * 3
    for member in grid[:: len(grid) // 10]:
        cfg = compose_config("configs/finetune/base.yaml", [word for word in member if not word.startswith("--")])
        _, run, task, recipe = member[1].removeprefix("--name=").split("/")
        assert cfg.checkpoint.finetune_from_model == f"{tmp_path}/runs/{run}/checkpoints/checkpoint_last.pt" and task == "sst-2"
        assert recipe == f"lr{cfg.optimization.lr[0]}-batch{cfg.dataset.batch_size}-seed{cfg.common.seed}"
        assert (cfg.model.projected_dim, cfg.task.max_positions, cfg.optimization.max_epoch) == (8, 16, 10)  # the checkpoint says what it is
    assert "Submitted batch job 7" in paper("table-2", "--tasks", tasks)


@pytest.mark.slow
def test_table_2_is_read_back(paper, masked_lm, pieces, glue, tmp_path, monkeypatch):
    run = "n512-k256-headwise"
    for name, value in {"COLUMNS": ("sst-2",), "TABLE_2": {run: TABLE_2[run]}, "RATES": (1e-3,), "BATCHES": (16,), "SEEDS": (1, 2)}.items():
        monkeypatch.setattr(paper_scale, name, value)
    finished(tmp_path / "runs" / run, masked_lm / "checkpoint_last.pt", pieces)
    tasks = tasks_of(tmp_path, glue, pieces)
    assert "Submitted batch job 7" in paper("table-2", "--tasks", tasks) and not list((tmp_path / "ledger").iterdir())
    (job,) = finetunings(tmp_path / "runs", tasks, "cpu")
    finetune(job)
    assert "table-2: not enough evidence at scale paper" in paper("table-2", "--tasks", tasks)
    (path,) = (tmp_path / "ledger").iterdir()
    entry = ledger.read(path)
    assert path.stem == "finetuning-sst-2-n512-k256-headwise-paper" and entry.scale == "paper" and entry.configuration["experiment"] == "table-2"
    assert entry.measured["valid accuracy"].repetitions == 2 and set(entry.configuration["rules"]) >= {"table-2", "pretraining"}
