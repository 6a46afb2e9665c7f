"""Options and checkpoints that do not fit give a sentence with the value and what is allowed.

``tests/bad_input/test_fairseq.py`` has the flags of whole programs.
"""

import re

import pytest
import torch

import fairseq_linformer.models  # noqa: F401  allows the types of checkpoints

from .test_model import Task, build


@pytest.mark.parametrize(
    "options",
    [
        dict(encoder_layers=0),
        dict(mha_heads_to_keep=1),
        dict(ffn_blocks_to_remove=1),
        dict(encoder_layers_to_keep="1,1"),
        dict(quant_noise_pq=0.1, offload_activations=True),
        dict(quant_noise_scalar=2.0),
        dict(pooler_dropout=-1.0),
        dict(ffn_reg_scale_factor=-0.5),
        dict(quant_noise_pq_block_size=0, quant_noise_pq=0.1),
        dict(compile=True, quant_noise_pq=0.1),
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


def test_input_longer_than_n_is_rejected():
    with pytest.raises(ValueError, match="at most 16 positions.* got 17"):
        build()(torch.full((1, 17), 5))


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
    "untied": (dict(untie_weights_roberta=True), {}, "trained with untie_weights_roberta, this model is not"),
    "FFN": ({}, dict(encoder_ffn_embed_dim=16), "fc1.weight is (32, 16) in the checkpoint and (16, 16)"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch_is_described(name):
    made_with, loaded_with, difference = MISMATCHES[name]
    model = build(**loaded_with)
    with pytest.raises(ValueError, match=re.escape(difference)):
        model.load_state_dict(build(**made_with).state_dict())


def test_other_dictionaries_and_architectures_are_described():
    with pytest.raises(ValueError, match="dictionary entries 43, this model has 35"):
        build().load_state_dict(build(Task(words=38)).state_dict())
    roberta = {key: value for key, value in build().state_dict().items() if not re.search(r"\.[EF]\.", key)}
    with pytest.raises(ValueError, match="no projections E and F; to convert a RoBERTa checkpoint, run"):
        build().load_state_dict(roberta)


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
