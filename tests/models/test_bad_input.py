"""Invalid input gives a one-line message with the value and what is allowed, and no checkpoint."""

import re

import pytest
import torch

from .. import fairseq_commands
from ..bad_input.test_fairseq import chain
from ..fairseq_commands import PLUGIN, TINY, command, load, train
from .test_model import build

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "options",
    [
        dict(projected_dim=17),
        dict(encoder_attention_heads=3),
        dict(encoder_layers=0),
        dict(dropout=1.5),
        dict(projection_lr_scale=0.0),
        dict(max_positions=8),  # the task's samples are longer
        dict(mha_heads_to_keep=1),
        dict(ffn_blocks_to_remove=1),
        dict(encoder_layers_to_keep="0,5"),
        dict(encoder_layers_to_keep="1,1"),
        dict(quant_noise_pq=0.1, offload_activations=True),
        dict(quant_noise_scalar=2.0),
        dict(pooler_dropout=-1.0),
        dict(ffn_reg_scale_factor=-0.5),
        dict(quant_noise_pq_block_size=0, quant_noise_pq=0.1),
    ],
    ids=str,
)
def test_rejected_options(options):
    """The message has fairseq's name of the first option, and its value."""
    name, value = next(iter(options.items()))
    with pytest.raises(ValueError, match=f"^{name} ") as refusal:
        build(**options)
    assert str(value) in str(refusal.value)


def test_missing_user_dir(mlm_data, tmp_path):
    with pytest.raises(FileNotFoundError, match="fairseq_linformr"):
        command("train", mlm_data, "--user-dir", PLUGIN.replace("former", "formr"), *fairseq_commands.TRAIN, *TINY)


def test_input_longer_than_n_is_rejected(mlm_data, tmp_path):
    train(mlm_data, tmp_path, updates=1)
    from fairseq import checkpoint_utils

    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_last.pt")])
    with pytest.raises(ValueError, match="at most 16 positions.* got 17"):
        model(torch.full((1, 17), 5))


def test_finetuning_text_longer_than_n(class_data, tmp_path):
    """Training skips it, validation rejects it; --shorten-method truncate truncates it."""
    options = [
        class_data,
        "--user-dir",
        PLUGIN,
        *TINY,
        "--task",
        "sentence_prediction",
        "--criterion",
        "sentence_prediction",
        "--num-classes",
        2,
        "--init-token",
        0,
        "--max-positions",
        8,
        "--batch-size",
        8,
        "--optimizer",
        "adam",
        "--lr",
        0.01,
        "--lr-scheduler",
        "fixed",
        "--max-epoch",
        1,
        "--cpu",
        "--num-workers",
        0,
        "--save-dir",
        tmp_path,
    ]
    with pytest.raises(Exception, match=r"Size of sample #\d+ is invalid \(=\d+\) since max_positions=8"):
        command("train", *options)
    assert not list(tmp_path.glob("*.pt"))
    command("train", *options, "--shorten-method", "truncate")
    assert list(tmp_path.glob("*.pt"))


MISMATCHES = {  # options of the checkpoint, options of the model, and the difference
    "k": ({}, dict(projected_dim=4), "projected_dim 6, this model has 4"),
    "k of heads": (dict(sharing="none", projected_dim="6/4"), dict(sharing="none"), "projected_dim 6/4x2"),
    "k of a convolution": (dict(projection="conv"), dict(projection="conv", projected_dim=7), "projected_dim 6"),
    "n": ({}, dict(max_positions=20), "max_positions 16, this model has 20"),
    "pools": (
        dict(projection="mean-pool"),
        dict(projection="max-pool"),
        "projection mean-pool, this model has max-pool",
    ),
    "sharing": ({}, dict(sharing="layerwise"), "sharing headwise, this model has layerwise"),
    "layers": ({}, dict(encoder_layers=3), "encoder_layers 2, this model has 3"),
    "heads": ({}, dict(encoder_attention_heads=4), "encoder_attention_heads 2, this model has 4"),
    "local window": (dict(local_window=2), {}, "local_window 2, this model has 0"),
    "epsilon": (dict(layer_norm_eps=1e-12), {}, "layer_norm_eps 1e-12, this model has 1e-05"),
    "pre-norm": ({}, dict(encoder_normalize_before=True), "sentence_encoder.layer_norm"),
    "FFN": ({}, dict(encoder_ffn_embed_dim=16), "fc1.weight is (32, 16) in the checkpoint and (16, 16)"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch_is_described(name):
    made_with, loaded_with, difference = MISMATCHES[name]
    model = build(**loaded_with)
    with pytest.raises(ValueError, match=re.escape(difference)):
        model.load_state_dict(build(**made_with).state_dict())


def test_mismatched_checkpoint_is_rejected(mlm_data, tmp_path):
    train(mlm_data, tmp_path / "a", updates=1)
    with pytest.raises(Exception, match="Cannot load model parameters") as error:
        train(
            mlm_data,
            tmp_path / "b",
            "--sharing",
            "layerwise",
            "--finetune-from-model",
            tmp_path / "a" / "checkpoint_last.pt",
        )
    assert "sharing headwise, this model has layerwise" in chain(error.value)
    assert not list((tmp_path / "b").glob("*.pt"))


def test_untied_output_embeddings_are_not_dropped(mlm_data, tmp_path):
    train(mlm_data, tmp_path / "a", "--untie-weights-roberta", updates=1)
    with pytest.raises(Exception, match="Cannot load model parameters") as error:
        train(mlm_data, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "untie_weights_roberta" in chain(error.value)
    train(mlm_data, tmp_path / "a", "--untie-weights-roberta", updates=2)


def test_dictionary_of_another_size_is_rejected(mlm_data, tmp_path):
    train(mlm_data, tmp_path / "a", updates=1)
    other = fairseq_commands.masked_lm_data(tmp_path / "data", words=fairseq_commands.WORDS + 8)
    with pytest.raises(Exception, match="Cannot load model parameters") as error:
        train(other, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "dictionary entries 45, this model has 53" in chain(error.value)
    with pytest.raises(Exception, match="dictionary entries 45, this model has 53"):
        command(
            "validate",
            other,
            "--user-dir",
            PLUGIN,
            "--task",
            "masked_lm",
            "--batch-size",
            8,
            "--path",
            tmp_path / "a" / "checkpoint_last.pt",
            "--cpu",
        )


def test_roberta_checkpoint_gets_a_hint(mlm_data, tmp_path):
    roberta = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]
    train(mlm_data, tmp_path / "a", model=roberta, updates=1)
    with pytest.raises(Exception, match="Cannot load model parameters") as error:
        train(mlm_data, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "no projections E and F" in chain(error.value)


class Code:
    def __reduce__(self):
        return print, ("this code ran",)


def test_checkpoint_with_code_is_rejected(mlm_data, tmp_path, capsys):
    train(mlm_data, tmp_path, updates=1)
    checkpoint = load(tmp_path)
    checkpoint["extra_state"]["innocent"] = Code()
    torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
    with pytest.raises(Exception, match=r"checkpoint_last.pt contains code \((builtins\.)?print\)"):
        train(mlm_data, tmp_path, updates=2)
    with pytest.raises(Exception, match=r"checkpoint_last.pt contains code \((builtins\.)?print\)"):
        command(
            "validate",
            mlm_data,
            "--user-dir",
            PLUGIN,
            "--task",
            "masked_lm",
            "--batch-size",
            8,
            "--path",
            tmp_path / "checkpoint_last.pt",
            "--cpu",
        )
    assert "this code ran" not in capsys.readouterr().out


def test_only_option_containers_are_safe_globals():
    import fairseq_linformer  # noqa: F401

    allowed = {f"{name.__module__}.{name.__qualname__}" for name in torch.serialization.get_safe_globals()}
    containers = {"DictConfig", "ListConfig", "AnyNode", "ContainerMetadata", "Metadata"}
    assert {name.split(".")[-1] for name in allowed if name.startswith("omegaconf")} == containers
    rest = {name for name in allowed if not name.startswith(("torch", "omegaconf"))}
    numbers = {name for name in rest if name.startswith("numpy")}
    assert {name.split(".")[-1] for name in numbers} == {"scalar", "dtype", "Float32DType", "Float64DType"} and len(
        numbers
    ) == 4
    rest -= numbers
    assert rest == {
        "argparse.Namespace",
        "builtins.dict",
        "builtins.int",
        "builtins.list",
        "collections.defaultdict",
        "fairseq.distributed.utils._TensorPlaceholder",
        "typing.Any",
    }
