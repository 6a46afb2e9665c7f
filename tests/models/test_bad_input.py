"""Bad input gets one clear sentence with the value and what is allowed, and leaves no checkpoint."""

import pickle
import re
import shutil

import pytest
import torch

from .. import stock
from ..stock import PLUGIN, TINY, command, load, train
from .test_model import build


def chain(error: BaseException) -> str:
    """All that the user reads: the error and those it came from."""
    parts = []
    while error is not None:
        parts.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


BAD_OPTIONS = {
    "k > n": (dict(projected_dim=17), "projected_dim is 17; it must be between 1 and max_positions, which is 16"),
    "k = 0": (dict(projected_dim=0), "projected_dim is 0; it must be between 1 and max_positions"),
    "k < 0": (dict(projected_dim=-3), "projected_dim is -3; it must be between 1 and max_positions"),
    "heads": (dict(encoder_attention_heads=3), "encoder_attention_heads is 3; it must divide encoder_embed_dim, which is 16"),
    "layers": (dict(encoder_layers=0), "encoder_layers is 0; it must be at least 1"),
    "dropout": (dict(dropout=1.5), r"dropout is 1.5; it must be in \[0, 1\)"),
    "scale": (dict(projection_lr_scale=0.0), "projection_lr_scale is 0.0; it must be above 0 and at most 1"),
    "n below the task's": (dict(max_positions=8), "max_positions is 8, and the task makes samples of up to 16 tokens"),
    "head pruning": (dict(mha_heads_to_keep=1), "mha_heads_to_keep is 1; .*only -1"),
    "FFN pruning": (dict(ffn_blocks_to_remove=1), "ffn_blocks_to_remove is 1; .*only -1"),
    "layers to keep": (dict(encoder_layers_to_keep="0,5"), "encoder_layers_to_keep is '0,5'; .*between 0 and 1"),
    "layers not a list": (dict(encoder_layers_to_keep="a"), "encoder_layers_to_keep is 'a'"),
    "layers twice": (dict(encoder_layers_to_keep="1,1"), "encoder_layers_to_keep is '1,1'; .*different layers"),
    "noise": (dict(quant_noise_pq=1.0), r"quant_noise_pq is 1.0; it must be in \[0, 1\)"),
    "noise and recomputation": (dict(quant_noise_pq=0.1, offload_activations=True), "quant_noise_pq is 0.1 and checkpoint_activations is on"),
    "scalar noise": (dict(quant_noise_scalar=2.0), "quant_noise_scalar is 2.0"),
    "head dropout": (dict(pooler_dropout=-1.0), "pooler_dropout is -1.0"),
    "regularisation": (dict(mha_reg_scale_factor=float("nan")), "mha_reg_scale_factor is nan; it must be 0 or more"),
    "no block": (dict(quant_noise_pq=0.1, quant_noise_pq_block_size=0), "quant_noise_pq_block_size is 0"),
    "block": (dict(quant_noise_pq=0.1, quant_noise_pq_block_size=5), "quant_noise_pq_block_size is 5; it must divide encoder_embed_dim, which is 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options(name):
    options, sentence = BAD_OPTIONS[name]
    with pytest.raises(ValueError, match=sentence):
        build(**options)


@pytest.mark.parametrize("flags, sentence", [
    (["--projected-dim", "17"], "projected_dim is 17; it must be between 1 and max_positions, which is 16"),
    (["--encoder-attention-heads", "3"], "encoder_attention_heads is 3; it must divide encoder_embed_dim"),
])  # fmt: skip
def test_flags(flags, sentence, mlm_data, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        train(mlm_data, tmp_path, *flags)
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("flag, value", [("--sharing", "layers"), ("--activation-fn", "gulu"), ("--arch", "linformer_robert")])
def test_unknown_names_of_flags(flag, value, mlm_data, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train(mlm_data, tmp_path, flag, value)
    # fairseq's own spelling of the flag is --arch/-a
    assert f"argument {flag}: invalid choice: '{value}'" in capsys.readouterr().err.replace("/-a", "")
    assert not list(tmp_path.glob("*.pt"))


def test_unknown_sharing_in_yaml(mlm_data, tmp_path, capfd):
    with pytest.raises(SystemExit):
        stock.hydra_train(mlm_data, tmp_path, "+run=tiny", "model.sharing=layers")
    assert "Invalid value 'layers', expected one of [none, headwise, key-value, layerwise]" in capfd.readouterr().err
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("key, value, sentence", [("projected_dim", 999, "projected_dim is 999"), ("projekted_dim", 5, "projekted_dim")])
def test_bad_values_and_keys_in_yaml(key, value, sentence, mlm_data, tmp_path, capfd):
    with pytest.raises(SystemExit):
        stock.hydra_train(mlm_data, tmp_path, "+run=tiny", f"++model.{key}={value}")
    assert sentence in capfd.readouterr().err
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("folder", ["missing", "empty"])
def test_data_folder(folder, tmp_path):
    data = tmp_path / folder
    if folder == "empty":
        data.mkdir()
    with pytest.raises(FileNotFoundError, match=f"{folder}/dict.txt"):
        train(data, tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.pt"))


def test_data_folder_without_a_split(mlm_data, tmp_path):
    shutil.copytree(mlm_data, tmp_path / "data", ignore=shutil.ignore_patterns("train.*"))
    with pytest.raises(FileNotFoundError, match="Dataset not found: train"):
        train(tmp_path / "data", tmp_path / "run")


def test_user_dir_typo(mlm_data, tmp_path):
    with pytest.raises(FileNotFoundError, match="fairseq_linformr"):
        command("train", mlm_data, "--user-dir", PLUGIN.replace("former", "formr"), *stock.TRAIN, *TINY)


def test_input_longer_than_n(mlm_data, tmp_path):
    train(mlm_data, tmp_path, updates=1)
    from fairseq import checkpoint_utils

    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_last.pt")])
    with pytest.raises(ValueError, match="the input has 17 positions; this model takes at most 16"):
        model(torch.full((1, 17), 5))


def test_a_text_longer_than_n_in_finetuning(class_data, tmp_path):
    """Training leaves it out, validation refuses; --shorten-method truncate cuts it."""
    options = [
        class_data, "--user-dir", PLUGIN, *TINY, "--task", "sentence_prediction", "--criterion", "sentence_prediction",
        "--num-classes", 2, "--init-token", 0, "--max-positions", 8, "--batch-size", 8, "--optimizer", "adam",
        "--lr", 0.01, "--lr-scheduler", "fixed", "--max-epoch", 1, "--cpu", "--num-workers", 0, "--save-dir", tmp_path,
    ]  # fmt: skip
    with pytest.raises(Exception, match=r"Size of sample #\d+ is invalid \(=\d+\) since max_positions=8"):
        command("train", *options)
    assert not list(tmp_path.glob("*.pt"))
    command("train", *options, "--shorten-method", "truncate")
    assert list(tmp_path.glob("*.pt"))


MISMATCHES = {
    "k": (["--projected-dim", "4"], "made with projected_dim 8, this model has 4"),
    "n": (["--tokens-per-sample", "12"], "made with max_positions 16, this model has 12"),
    "sharing": (["--sharing", "layerwise"], "made with sharing headwise, this model has layerwise"),
    "none": (["--sharing", "none"], "made with sharing headwise, this model has none"),
    "width": (["--encoder-embed-dim", "24"], "made with encoder_embed_dim 16, this model has 24"),
    "layers": (["--encoder-layers", "3"], "made with encoder_layers 2, this model has 3"),
    "heads": (["--encoder-attention-heads", "4"], "made with encoder_attention_heads 2, this model has 4"),
    "prenorm": (["--encoder-normalize-before"], "this model has encoder.sentence_encoder.layer_norm.bias, the checkpoint has not"),
    "FFN": (["--encoder-ffn-embed-dim", "16"], r"fc1.weight is \(32, 16\) in the checkpoint and \(16, 16\)"),
}


@pytest.fixture(scope="module")
def trained(mlm_data, tmp_path_factory):
    """A checkpoint of TINY."""
    folder = tmp_path_factory.mktemp("trained")
    train(mlm_data, folder, updates=1)
    return folder / "checkpoint_last.pt"


@pytest.mark.slow
@pytest.mark.parametrize("name", MISMATCHES)
def test_a_checkpoint_that_does_not_fit(name, mlm_data, trained, tmp_path):
    flags, sentence = MISMATCHES[name]
    with pytest.raises(Exception) as error:
        train(mlm_data, tmp_path, *flags, "--finetune-from-model", trained)
    assert re.search(sentence, chain(error.value)), chain(error.value)
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.slow
def test_output_embeddings_of_their_own_are_not_dropped_in_silence(mlm_data, tmp_path):
    train(mlm_data, tmp_path / "a", "--untie-weights-roberta", updates=1)
    with pytest.raises(Exception) as error:
        train(mlm_data, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "made with untie_weights_roberta, this model without" in chain(error.value)
    train(mlm_data, tmp_path / "a", "--untie-weights-roberta", updates=2)


@pytest.mark.slow
def test_a_dictionary_that_does_not_fit_the_checkpoint(mlm_data, tmp_path):
    train(mlm_data, tmp_path / "a", updates=1)
    other = stock.masked_lm_data(tmp_path / "data", words=stock.WORDS + 8)
    with pytest.raises(Exception) as error:
        train(other, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "made with dictionary entries 45, this model has 53; they must be equal" in chain(error.value)
    with pytest.raises(ValueError, match="made with dictionary entries 45, this model has 53"):
        command("validate", other, "--user-dir", PLUGIN, "--task", "masked_lm", "--batch-size", 8,
                "--path", tmp_path / "a" / "checkpoint_last.pt", "--cpu")  # fmt: skip


def test_a_roberta_checkpoint_is_named_as_such(mlm_data, tmp_path):
    roberta = ["--arch", "roberta", *TINY[2:-2], "--encoder-layers", "2"]
    train(mlm_data, tmp_path / "a", model=roberta, updates=1)
    with pytest.raises(Exception) as error:
        train(mlm_data, tmp_path / "b", "--finetune-from-model", tmp_path / "a" / "checkpoint_last.pt")
    assert "the checkpoint has no projections E and F: it was not made by linformer_roberta" in chain(error.value)


class Code:
    def __reduce__(self):
        return print, ("this code ran",)


def test_a_checkpoint_that_carries_code_is_refused(mlm_data, tmp_path, capsys):
    train(mlm_data, tmp_path, updates=1)
    checkpoint = load(tmp_path)
    checkpoint["extra_state"]["innocent"] = Code()
    torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        train(mlm_data, tmp_path, updates=2)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        command("validate", mlm_data, "--user-dir", PLUGIN, "--task", "masked_lm", "--batch-size", 8,
                "--path", tmp_path / "checkpoint_last.pt", "--cpu")  # fmt: skip
    assert "this code ran" not in capsys.readouterr().out


def test_containers_of_options_are_all_that_the_plugin_allows():
    import fairseq_linformer  # noqa: F401

    allowed = {f"{name.__module__}.{name.__qualname__}" for name in torch.serialization.get_safe_globals()}
    containers = {"DictConfig", "ListConfig", "AnyNode", "ContainerMetadata", "Metadata"}
    assert {name.split(".")[-1] for name in allowed if name.startswith("omegaconf")} == containers
    rest = {name for name in allowed if not name.startswith(("torch", "omegaconf"))}
    numbers = {name for name in rest if name.startswith("numpy")}
    assert {name.split(".")[-1] for name in numbers} == {"scalar", "dtype", "Float32DType", "Float64DType"} and len(numbers) == 4
    rest -= numbers
    assert rest == {"argparse.Namespace", "builtins.dict", "builtins.int", "builtins.list", "collections.defaultdict", "fairseq.distributed.utils._TensorPlaceholder",
                    "typing.Any"}  # fmt: skip
