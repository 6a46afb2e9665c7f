"""The configuration of a job, and what is refused before it is queued."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from fairseq_linformer.launching.training import Training, check_buildable, identity, quoted, run_name

from .jobs import overrides

BASE = "configs/pretrain/base.yaml"


@pytest.mark.parametrize("config, given, name", [
    (BASE, ["+run=n512-k128-headwise", "+gpus=x64", "task.data=a:b"], "n512-k128-headwise"),
    (BASE, [], "base"),
    (BASE, ["model.dropout=0", "common.seed=3", "common.log_interval=5"], "base,dropout=0,seed=3"),
    ("configs/pretrain/run/n1024-roberta.yaml", ["optimization.lr=[0.001]"], "n1024-roberta,lr=_0.001_"),
    (BASE, ["+run=tiny", "++model.activation_fn=relu"], "tiny,activation_fn=relu"),
])  # fmt: skip
def test_a_run_is_named_by_its_configuration(config, given, name):
    assert run_name(config, given) == name


@pytest.mark.parametrize("processes, gpus", [(1, []), (16, ["+gpus=x8"]), (128, ["+gpus=x128"]), (8, ["+gpus=x128"])])
def test_an_update_keeps_its_tokens(processes, gpus, mlm_data):
    cfg = Training(BASE, ("+run=n1024-k256-layerwise", f"task.data={mlm_data}", *gpus), processes).composed
    assert cfg.distributed_training.distributed_world_size == processes
    assert cfg.optimization.update_freq == [128 // processes]
    assert cfg.dataset.batch_size * cfg.task.tokens_per_sample * cfg.optimization.update_freq[0] * processes == 1 << 20


def test_processes_that_do_not_divide_the_batch_are_refused(mlm_data):
    with pytest.raises(ValueError, match="24 processes .*; 1, 2, 4, 8, 16, 32, 64, 128 do$"):
        Training(BASE, (f"task.data={mlm_data}",), 24).composed
    with pytest.raises(ValueError, match="256 processes .* dataset.batch_size=8") as error:
        Training(BASE, (f"task.data={mlm_data}",), 256).composed
    hint = str(error.value).split()[-2:]  # and it is true
    assert Training(BASE, (f"task.data={mlm_data}", *hint), 256).composed.optimization.update_freq == [1]


def test_the_n_that_fairseq_would_replace_is_refused():
    given = ("task.data=a", "task.num_classes=2", "checkpoint.finetune_from_model=b")
    with pytest.raises(ValueError, match="model.max_positions is 256.* 512"):
        Training("configs/finetune/base.yaml", (*given, "++model.max_positions=256")).composed
    with pytest.raises(ValueError, match="^task.data is"):  # the paths are wrong, and n is not
        Training("configs/finetune/base.yaml", (*given, "++model.max_positions=512")).composed


@pytest.mark.parametrize("given, said", [
    ([], ["task.data is missing"]),
    (["task.data=nowhere"], ["task.data is ", "/nowhere"]),
    (["task.data={data}:nowhere"], ["task.data is {data}:", "no folder", "/nowhere"]),
    (["task.data={tmp}"], ["task.data is {tmp}", "dict.txt"]),
    (["task.data={part}"], ["task.data is {part}", "train.bin", "prepare pretraining"]),
    (["task.data={data}", "checkpoint.restore_file=lost.pt"], ["restore_file is lost.pt", "checkpoint_last.pt"]),
    (["task.data={data}", "checkpoint.reset_optimizer=true"], ["checkpoint.reset_optimizer is True"]),
    (["task.data={data}", "checkpoint.no_save=true"], ["checkpoint.no_save is True"]),
    (["task.data={data}", "checkpoint.no_last_checkpoints=true"], ["checkpoint.no_last_checkpoints is True"]),
    (["task.data={data}", "checkpoint.save_dir=/elsewhere"], ["checkpoint.save_dir is /elsewhere"]),
    (["task.data={data}", "distributed_training.use_sharded_state=true"], ["use_sharded_state is True"]),
    (["task.data={data}", "checkpoint.finetune_from_model=lost.pt"], ["finetune_from_model is ", "/lost.pt"]),
    (["task.data={data}", "+run=n3"], ["run/n3"]),
    (["task.data={data}", "model.droput=0"], ["droput"]),
    (["task.data={data}", "optimization.update_freq=[0]"], ["update_freq is [0]", "at least 1"]),
])  # fmt: skip
def test_what_cannot_run_is_said_in_one_sentence(given, said, mlm_data, tmp_path):
    folders = {"data": mlm_data, "tmp": tmp_path, "part": tmp_path / "part"}
    folders["part"].mkdir()
    for name in ("dict.txt", "train.idx"):
        (folders["part"] / name).touch()
    with pytest.raises(ValueError) as error:
        Training(BASE, tuple(word.format(**folders) for word in given)).composed
    sentence = str(error.value)
    assert all(part.format(**folders) in sentence for part in said) and "\n" not in sentence, sentence


@pytest.mark.parametrize("given, said", [
    ([], None),
    (["model.projected_dim=600"], "projected_dim is 600"),
    (["+run=n512-roberta", "++model.encoder_attention_heads=7"], "roberta_base: AssertionError: embed_dim"),
    (["optimizer.adam_betas=abc"], "optimizer.adam_betas=abc"),
])  # fmt: skip
def test_what_fairseq_cannot_build_is_refused(given, said, mlm_data):
    training = Training(BASE, (f"task.data={mlm_data}", *given))
    if said is None:
        check_buildable(training.composed)
    else:
        with pytest.raises(ValueError, match=said):
            check_buildable(training.composed)


def test_paths_are_made_absolute(mlm_data, tmp_path, monkeypatch):
    monkeypatch.chdir(mlm_data)
    config = tmp_path / "base.yaml"
    config.write_text("task: {_name: masked_lm, data: \"???\"}\nmodel: {_name: linformer_roberta_tiny}\n"
                      "distributed_training: {distributed_world_size: 1}\n")  # fmt: skip
    cfg = Training(str(config), ("task.data=.:.",)).composed
    assert cfg.task.data == f"{mlm_data}:{mlm_data}" and cfg.checkpoint.restore_file == "checkpoint_last.pt"


def test_the_device_is_one_set_of_overrides(mlm_data):
    cpu, gpu = (Training(BASE, (f"task.data={mlm_data}",), 2, device).composed for device in ("cpu", "gpu"))
    assert cpu.common.cpu and not cpu.common.fp16 and cpu.distributed_training.distributed_backend == "gloo"
    assert not gpu.common.cpu and gpu.common.fp16 and gpu.distributed_training.distributed_backend == "nccl"


def test_what_fairseq_gets_is_what_was_composed(mlm_data):
    from fairseq_linformer.planning.configs import compose_config

    training = Training("configs/pretrain/run/n1024-roberta.yaml", (f"task.data={mlm_data}", "common.seed=5"), 8, "cpu")
    words = training.command_line(**{"hydra.output_subdir": None})
    assert words[0::2][:2] == ["--config-dir", "--config-name"] and words[3] == "base"
    cfg = compose_config("configs/pretrain/base.yaml", words[4:])
    assert OmegaConf.to_yaml(cfg) == OmegaConf.to_yaml(training.composed)
    assert words[-1] == "hydra.output_subdir=null"


@pytest.mark.parametrize("value", ["a 'b' c", "a\\b", "end\\", "\\'", "%(x)s | [1, 2] = {3}", "", None, True, [1, 2]])
def test_hydra_reads_a_quoted_value_unchanged(value):
    assert OverridesParser.create().parse_override(f"x={quoted(value)}").value() == value


@pytest.mark.parametrize("name", ["50%t", "a\\b", "${x}", "two\nlines", "it's"])
def test_a_name_that_others_would_misread_is_refused(name, mlm_data):
    with pytest.raises(ValueError, match="run folder") as error:
        Training(BASE, (f"task.data={mlm_data}",), name=name).folder
    assert repr(name)[1:-1] in str(error.value)


@pytest.mark.parametrize("change, same", [
    ({"common.log_interval": 7}, True),
    ({"checkpoint.save_interval_updates": 3}, True),
    ({"dataset.num_workers": 0}, True),
    ({"model.dropout": 0.2}, False),
    ({"optimization.update_freq": "[8]"}, False),
    ({"common.seed": 9}, False),
])  # fmt: skip
def test_the_identity_of_a_run(change, same, mlm_data):
    one = identity(Training(BASE, tuple(overrides(mlm_data)), 2, "cpu").composed)
    other = identity(Training(BASE, tuple(overrides(mlm_data, **change)), 4, "cpu").composed)
    assert (one == other) == same
