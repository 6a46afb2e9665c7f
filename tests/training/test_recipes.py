"""configs/ against the paper and the recipes that it cites, transcribed here by hand.

References:

    [linformer] Wang et al. 2020, section 5.1, Table 2 and Figure 3
    [roberta]   Liu et al. 2019, sections 2 and 3, Tables 9 and 10 (appendix)
    [fairseq]   examples/roberta/config/pretraining/base.yaml and finetuning/sst_2.yaml
    [glue]      sentences or pairs of each training set, as GLUE distributes it
"""

import ast
import math
import re
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq.models import build_model
from omegaconf import OmegaConf

from fairseq_linformer.benchmark.flops import AssumedValues
from fairseq_linformer.models.options import resolve_options
from fairseq_linformer.models.stub_task import VOCAB_SIZE, StubTask
from fairseq_linformer.training.job import compose_config

from ..fairseq_commands import CONFIGS

PRETRAIN, FINETUNE = CONFIGS / "pretrain", CONFIGS / "finetune"
BASE = PRETRAIN / "base.yaml"
TOKENS = 1_048_576
"""Tokens per update: 2,048 sequences of 512 (fairseq's recipe of RoBERTa-base on its 8 GPUs)."""
PUBLISHED = Path(fairseq.__file__).parent / "examples/roberta/config"


def values(cfg, keys):
    """Values of a composed configuration; tuples are strings in YAML."""
    selected = {key: OmegaConf.select(cfg, key) for key in keys}
    return {key: ast.literal_eval(value) if str(value).startswith("(") else value for key, value in selected.items()}


def published(name, keys):
    """Values of a configuration of fairseq [fairseq], each of which it sets."""
    found = values(OmegaConf.load(PUBLISHED / name), keys.split())
    assert None not in found.values()
    return found


_SHARED = """
    common.fp16 task._name optimizer._name optimizer.weight_decay optimizer.adam_betas
    optimizer.adam_eps lr_scheduler._name optimization.clip_norm optimization.lr model.dropout model.attention_dropout
"""
PRETRAINING = {
    **published("pretraining/base.yaml", f"{_SHARED} lr_scheduler.warmup_updates"),
    "criterion._name": "masked_lm",
    "task.sample_break_mode": "none",  # n tokens in a row; for why not "complete", see base.yaml
    "task.mask_prob": 0.15,  # [roberta] 2.3, as are the next two
    "task.leave_unmasked_prob": 0.1,
    "task.random_token_prob": 0.1,
    "lr_scheduler.end_learning_rate": 0.0,
    "lr_scheduler.power": 1.0,
    "lr_scheduler.total_num_update": 250_000,
    "optimization.max_update": 250_000,  # [linformer]
}
BASE_SIZE = {
    "encoder_layers": 12,
    "encoder_embed_dim": 768,
    "encoder_attention_heads": 12,
    "encoder_ffn_embed_dim": 3072,
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
}
"""[roberta] Table 9, of RoBERTa-base."""
FINETUNING = {
    # <s> first, </s> between two sentences
    **published("finetuning/sst_2.yaml", f"{_SHARED} task.init_token task.separator_token optimization.max_epoch"),
    "criterion._name": "sentence_prediction",
    "task.shorten_method": "truncate",  # the beginning of a long text, in each epoch the same
    "dataset.batch_size": 32,  # [roberta] Table 10, GLUE
    "lr_scheduler.end_learning_rate": 0.0,
    "lr_scheduler.power": 1.0,
}
TABLE_2 = {
    (n, k, sharing)
    for n, k in ((512, 128), (512, 256), (1024, 256))
    for sharing in ("headwise", "key-value", "layerwise")
}
FIGURE_3 = {
    *((512, None, None), (512, 64, "headwise"), (512, 128, "headwise"), (512, 256, "headwise")),  # (a)
    *((1024, None, None), (1024, 128, "headwise"), (1024, 256, "headwise"), (1024, 512, "headwise")),  # (b)
    *((512, 256, "none"), (512, 256, "headwise"), (512, 256, "key-value"), (512, 256, "layerwise")),  # (c)
    *((512, 256, "headwise"), (1024, 256, "headwise"), (2048, 256, "headwise"), (4096, 256, "headwise")),  # (d)
    *((n, None, None) for n in (512, 1024, 2048, 4096)),  # controls of (d), which the figure does not have
}
STATED_K = {(512, 128), (512, 256), (1024, 256), (2048, 256), (4096, 256)}
"""n and k that section 5.1 or Table 2 names."""
STATED_SHARING = ("key-value", "layerwise")
"""Sharings that Table 2 names in a row; where it names none, headwise is assumed."""
PAPER_RUNS = {f"n{n}-k{k}-{sharing}" if k else f"n{n}-roberta": (n, k, sharing) for n, k, sharing in TABLE_2 | FIGURE_3}
TASKS = {  # rows [glue], classes; IMDB: Maas et al. 2011
    "cola": (8551, 2),
    "sst-2": (67349, 2),
    "mrpc": (3668, 2),
    "sts-b": (5749, 1),
    "qqp": (363846, 2),
    "mnli": (392702, 3),
    "qnli": (104743, 2),
    "rte": (2490, 2),
    "imdb": (25000, 2),
}


def build(cfg):
    """The model, without memory."""
    with torch.device("meta"), AssumedValues(0):
        return build_model(cfg.model, StubTask(VOCAB_SIZE, cfg.task.tokens_per_sample))


def sequences_per_update(cfg):
    return cfg.dataset.batch_size * cfg.optimization.update_freq[0] * cfg.distributed_training.distributed_world_size


def tokens_per_update(cfg):
    return sequences_per_update(cfg) * cfg.task.tokens_per_sample


def test_runs_are_those_of_figure_3_and_table_2():
    assert {path.stem for path in PRETRAIN.glob("run/*.yaml")} == {*PAPER_RUNS, "tiny"}


@pytest.mark.parametrize("name", ["base", *sorted(PAPER_RUNS)])
def test_paper_run_has_the_values_of_its_name_and_the_recipe(name):
    n, k, sharing = PAPER_RUNS.get(name, (512, 256, "layerwise"))
    cfg = compose_config(BASE if name == "base" else PRETRAIN / f"run/{name}.yaml")
    assert values(cfg, PRETRAINING) == PRETRAINING
    assert tokens_per_update(cfg) == TOKENS
    model = build(cfg)
    assert {option: getattr(model.args, option, False) for option in BASE_SIZE} == BASE_SIZE
    assert cfg.task.tokens_per_sample == model.max_positions() == n
    if k:
        shape = model.encoder.sentence_encoder.config
        assert (shape.projected_dim, shape.sharing, shape.projection) == (k, sharing, "linear")


def test_values_that_the_paper_does_not_state_are_marked_as_assumed():
    for name, (n, k, sharing) in PAPER_RUNS.items():
        lines = (PRETRAIN / f"run/{name}.yaml").read_text().splitlines()
        comment = " ".join(line[1:].strip() for line in lines if "#" in line)
        if k:
            assert ((n, k) in STATED_K and "Figure 3(c)" not in comment) or f"{k} is assumed" in comment, name
            is_marked = re.search("is assumed: the (row|figure) does not|Assumed to be", comment)
            assert sharing in STATED_SHARING or is_marked, name
    text = BASE.read_text()
    for key in ("fp16", "weight_decay", "warmup_updates", "clip_norm", "lr", "dropout"):
        assert re.search(rf"\b{key}: .*# .*assumed", text), key
    assert re.search(r"(?s)ASSUMED:.*neither start nor learning rate of E and F.*start=authors", text)


def test_authors_start_changes_only_e_and_f():
    """N(0, 0.02) at the full rate, as in examples/linformer; everything else is that of the run."""
    plain, theirs = (compose_config(BASE, ["+run=n512-k128-headwise", *more]) for more in ([], ["+start=authors"]))
    options = [resolve_options(cfg.model, cfg.task.tokens_per_sample) for cfg in (plain, theirs)]
    changed = {key for key, value in vars(options[0]).items() if value != getattr(options[1], key)}
    assert changed == {"projection_init", "projection_lr_scale"}
    assert (options[1].projection_init, options[1].projection_lr_scale) == ("normal", 1.0)
    del theirs.model.projection_init, theirs.model.projection_lr_scale
    del plain.model.projection_init, plain.model.projection_lr_scale
    assert plain == theirs


def test_gpus_and_lengths_do_not_change_tokens_per_update():
    for path in PRETRAIN.glob("gpus/*.yaml"):
        cfg = compose_config(path)
        assert path.stem == f"x{cfg.distributed_training.distributed_world_size}" and tokens_per_update(cfg) == TOKENS
        assert values(cfg, PRETRAINING) == PRETRAINING
    for path in PRETRAIN.glob("length/*.yaml"):
        cfg = compose_config(path)
        assert f"n{cfg.task.tokens_per_sample}" == path.stem and tokens_per_update(cfg) == TOKENS


def test_finetuning_follows_robertas_recipe():
    cfg = compose_config(FINETUNE / "base.yaml")
    assert values(cfg, FINETUNING) == FINETUNING
    assert (cfg.lr_scheduler.total_num_update, cfg.lr_scheduler.warmup_updates) == (20935, 1256)  # [fairseq], SST-2
    assert sequences_per_update(cfg) == 32


def test_classes_and_schedules_of_the_tasks():
    assert {path.stem for path in FINETUNE.glob("task/*.yaml")} == set(TASKS)
    for task, (rows, classes) in TASKS.items():
        updates = 10 * math.ceil(rows / 32)
        cfg = compose_config(FINETUNE / f"task/{task}.yaml")
        assert values(cfg, FINETUNING) == FINETUNING
        assert cfg.task.num_classes == classes
        assert cfg.lr_scheduler.total_num_update == updates
        assert cfg.lr_scheduler.warmup_updates == round(0.06 * updates)  # [roberta] Table 10
        assert cfg.checkpoint.maximize_best_checkpoint_metric
        # A class has no order: regression is for the one task with scores.
        metric = "pearson_and_spearman" if task == "sts-b" else "accuracy"
        assert (bool(cfg.criterion.regression_target), cfg.checkpoint.best_checkpoint_metric) == (classes == 1, metric)
