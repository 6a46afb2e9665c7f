"""Whether fairseq can build what a configuration asks for: tried without memory, before anybody waits for it."""

from functools import lru_cache

import torch
from fairseq.models import build_model
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import DictConfig, OmegaConf
from torch._subclasses import FakeTensorMode

from ..errors import first_line
from ..models.bare_task import BareTask
from ..planning.configs import VOCABULARY


def check_built(cfg: DictConfig) -> None:
    """
    Args:
        cfg: composed, of a task with one length.

    Raises:
        ValueError: the model, the optimizer or the schedule has a value that is not allowed.
    """
    task = cfg.task
    _model(OmegaConf.to_yaml(cfg.model), task.get("tokens_per_sample") or task.get("max_positions"))
    try:
        optimizer = build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
        build_lr_scheduler(cfg.lr_scheduler, optimizer)
    except Exception as error:  # fairseq evaluates text, and asserts
        values = ", ".join(f"{section}.{key}={value}" for section in ("optimizer", "lr_scheduler") for key, value in cfg[section].items() if key != "_name")
        raise ValueError(f"fairseq cannot build the optimizer and its schedule: {type(error).__name__}: {first_line(error)} ({values})") from None


@lru_cache(maxsize=None)  # the members of an array have few models
def _model(options: str, positions: int) -> None:
    model = OmegaConf.create(options)
    try:
        with FakeTensorMode():
            build_model(model, BareTask(VOCABULARY, positions))
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"fairseq cannot build the model {model._name}: {type(error).__name__}: {first_line(error)}") from None
