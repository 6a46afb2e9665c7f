"""Options and checkpoints that do not fit give a sentence with the value and what is allowed.

``tests/bad_input/test_fairseq.py`` has the flags of whole programs.
"""

import re

import pytest
import torch

import fairseq_linformer.models  # noqa: F401  allows the types of checkpoints

from .test_model import build


@pytest.mark.parametrize(
    "options",
    [
        dict(encoder_layers=0),
        dict(mha_heads_to_keep=1),
        dict(ffn_blocks_to_remove=1),
        dict(quant_noise_pq=0.1),
        dict(quant_noise_scalar=0.1),
        dict(spectral_norm_classification_head=True),
        dict(pooler_dropout=-1.0),
        dict(ffn_reg_scale_factor=-0.5),
        dict(compile=True, offload_activations=True),
    ],
    ids=str,
)
def test_rejected_options(options):
    """The message has fairseq's name of the first option, and its value."""
    name, value = next(iter(options.items()))
    with pytest.raises(ValueError, match=f"^{name} ") as refusal:
        build(**options)
    assert str(value) in str(refusal.value)


MISMATCHES = {  # options of the checkpoint, options of the model, and the difference
    "k": ({}, dict(projected_dim=4), "projected_dim 6, this model has 4; they must be equal"),
    "k of heads": (dict(sharing="none", projected_dim="6/4"), dict(sharing="none"), "projected_dim 6/4x2"),
    "n": ({}, dict(max_positions=20), "max_positions 16, this model has 20"),
    "kind": (dict(projection="mean-pool"), dict(projection="max-pool"), "mean-pool, this model has max-pool"),
    "heads": ({}, dict(encoder_attention_heads=4), "encoder_attention_heads 2, this model has 4; they must be equal"),
    "local window": (dict(local_window=2), {}, "local_window 2, this model has 0"),
    "epsilon": (dict(layer_norm_eps=1e-12), {}, "layer_norm_eps 1e-12, this model has 1e-05"),
    "untied": (dict(untie_weights_roberta=True), {}, "untie_weights_roberta True, this model has False"),
    "architecture": (dict(_name="roberta"), {}, "must be of linformer_roberta, got roberta; to convert a RoBERTa"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_checkpoint_with_other_options_is_rejected(name):
    made_with, loaded_with, difference = MISMATCHES[name]
    options = {**vars(build().args), "_name": "linformer_roberta_tiny", **made_with}
    with pytest.raises(ValueError, match=re.escape(difference)):
        build(**loaded_with).check_options(options)


def test_other_options_may_differ():
    options = {**vars(build().args), "_name": "linformer_roberta_base", "dropout": 0.3, "projection_init": "normal"}
    build(freeze_projections=True).check_options(options)


def test_only_plain_data_is_loaded():
    allowed = {f"{name.__module__}.{name.__qualname__}" for name in torch.serialization.get_safe_globals()}
    rest = {name for name in allowed if not name.startswith(("torch", "omegaconf", "numpy"))}
    assert rest == {
        "argparse.Namespace",
        "builtins.dict",
        "builtins.int",
        "builtins.list",
        "collections.defaultdict",
        "fairseq.distributed.utils._TensorPlaceholder",
        "typing.Any",
    }
    settings = {"DictConfig", "ListConfig", "AnyNode", "ContainerMetadata", "Metadata"}
    numbers = {"scalar", "dtype", "Float32DType", "Float64DType"}
    assert {name.split(".")[-1] for name in allowed if name.startswith(("omegaconf", "numpy"))} == settings | numbers
