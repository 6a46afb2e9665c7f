"""Checks of a node and of the run folder, before the processes of a job start."""

import pytest
import torch

from fairseq_linformer.training import preflight, run_folder
from fairseq_linformer.training.job import TrainingJob

from .jobs import overrides


def test_folder_is_created_and_printed(mlm_data, tmp_path, capsys):
    words = ["folder", *overrides(mlm_data), "--device=cpu", f"--runs={tmp_path}", "--name=run", "--processes=2"]
    preflight.main([*words, "--folder-only"])
    assert capsys.readouterr().out == f"{tmp_path}/run\n" and not (tmp_path / "run").exists()
    preflight.main(words)
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path}/run\n" and "update 0" in printed.err and (tmp_path / "run/config.yaml").exists()
    for wrong, problem in (
        (["run"], "run"),
        ([*words, "--processes=3"], "processes must.*3"),
        ([*words, "--processes=0"], "processes must.*0"),
    ):
        with pytest.raises(SystemExit, match=f"^preflight: .*{problem}"):
            preflight.main(wrong)


def test_problems_of_a_node_are_reported(mlm_data, tmp_path, monkeypatch):
    run = tmp_path / "run"
    training = TrainingJob("configs/pretrain/base.yaml", tuple(overrides(mlm_data)), 2, "cpu", str(tmp_path), "run")
    run_folder.create_or_resume(training)

    def problems(processes=2):
        return list(preflight.find_problems(run, processes))

    assert problems() == []
    with pytest.raises(SystemExit, match=r"^node \S+: .*/elsewhere"):
        preflight.main(["node", str(tmp_path / "elsewhere"), "--processes", "2"])
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(mlm_data), "/not/mounted"))
    assert len(problems()) == 1 and "/not/mounted" in problems()[0]
    (run / "config.yaml").write_text(config.replace("cpu: true", "cpu: false"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert len(problems()) == 1 and "no GPU" in problems()[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a V100")
    ones = torch.ones

    def without_kernels(*shape, device):
        raise RuntimeError("CUDA error: no kernel image is available\nmore")

    monkeypatch.setattr(torch, "ones", without_kernels)
    counted, failed = problems(8)
    assert "(8)" in counted and counted.endswith("got 4")
    assert problems(2)[0].endswith("got 4; to use some of them, set CUDA_VISIBLE_DEVICES=0,1")
    assert "a V100 (sm_70): CUDA error: no kernel image is available;" in failed and "constraints-v100.txt" in failed
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "ones", lambda *shape, device: ones(*shape))
    assert len(problems(8)) == 1 and problems(8)[0].endswith("got 1")  # torchrun would place all on it
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # Slurm may restrict each process to its GPU
    assert problems(8) == []
