"""The variables of srun and torchrun; what a node must have."""

import pytest
import torch

from fairseq_linformer.launching import folder, node
from fairseq_linformer.launching.place import Place, find_place
from fairseq_linformer.launching.training import Training

from .jobs import overrides

SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "20001"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}


def test_the_place_of_a_process():
    assert find_place(SLURM) == Place(5, 8, 1, "n1", 20001)
    assert find_place(TORCHRUN) == Place(3, 4, 3, "here", 29500)
    assert find_place({**SLURM, **TORCHRUN}) == find_place(TORCHRUN)  # torchrun in a job of one task a node


@pytest.mark.parametrize("variables, said", [
    ({}, "neither RANK nor SLURM_PROCID is set"),
    ({name: value for name, value in SLURM.items() if name != "MASTER_ADDR"}, "SLURM_PROCID is set and MASTER_ADDR is not"),
    ({name: value for name, value in TORCHRUN.items() if name != "LOCAL_RANK"}, "RANK is set and LOCAL_RANK is not"),
])  # fmt: skip
def test_variables_that_are_missing_are_named(variables, said):
    with pytest.raises(ValueError, match=said):
        find_place(variables)


@pytest.mark.parametrize("capability, architectures, runs", [
    ((7, 0), ["sm_75", "sm_80", "sm_90"], False),  # V100 and torch for CUDA 12.8
    ((7, 0), ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"], True),  # and for CUDA 12.6
    ((8, 6), ["sm_80"], True),
    ((8, 0), ["sm_86"], False),
    ((9, 0), ["sm_80"], False),
    ((12, 1), ["sm_90", "compute_90"], True),
    ((10, 0), ["sm_90a", "sm_100a"], True),
])  # fmt: skip
def test_which_gpus_a_torch_supports(capability, architectures, runs):
    assert node.supported(capability, architectures) == runs


def test_a_node_that_lacks_something_is_named(mlm_data, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    folder.begin(Training("configs/pretrain/base.yaml", tuple(overrides(mlm_data)), 2, "cpu", str(tmp_path), "run"))
    assert list(node.problems(run, 2)) == []
    with pytest.raises(SystemExit) as end:
        node.main([str(tmp_path / "elsewhere"), "--processes", "2"])
    assert "elsewhere is not there or cannot be written; the run folder must be on a file system that all nodes share" in str(end.value)

    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(mlm_data), "/not/mounted"))
    assert "the data /not/mounted is not there" in list(node.problems(run, 2))[0]
    (run / "config.yaml").write_text(config.replace("cpu: true", "cpu: false"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no GPU" in list(node.problems(run, 2))[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a V100")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75"])
    counted, built = node.problems(run, 8)
    assert counted == "4 GPUs are visible, for 8 processes"
    assert "does not support a V100 (sm_70); scripts/slurm/constraints-v100.txt has one that does" in built
