"""``roberta_eps``: fairseq's RoBERTa with a configurable epsilon in its layer norms.

fairseq fixes the epsilon at 1e-5; BERT and its descendants have 1e-12, which matters where embeddings are small.
"""

from argparse import ArgumentParser
from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture
from torch import nn

from ..config import check_epsilon
from .hub_bpe import HubTokenizerMixin
from .state_dicts import drop_old_buffers

EPS_ARCHITECTURE = "roberta_eps"
BERT_EPSILON, FAIRSEQ_EPSILON = 1e-12, 1e-5


@register_model(EPS_ARCHITECTURE)
class RobertaEpsModel(HubTokenizerMixin, RobertaModel):
    """fairseq's RoBERTa, whose option ``layer_norm_eps`` is the epsilon of all its layer norms."""

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        RobertaModel.add_args(parser)
        note = "epsilon of the layer norms (default: 1e-12, BERT's)"
        parser.add_argument("--layer-norm-eps", type=float, metavar="EPS", help=note)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RobertaEpsModel":
        _set_architecture_defaults(args)
        model: RobertaEpsModel = super().build_model(args, task)
        _set_layer_norm_eps(model, args.layer_norm_eps)
        return model

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise ValueError if a checkpoint with these options has another epsilon, which no tensor shows."""
        found = options.get("layer_norm_eps", FAIRSEQ_EPSILON)
        if found != self.args.layer_norm_eps:
            raise ValueError(f"the checkpoint must have layer_norm_eps {self.args.layer_norm_eps}, got {found}")

    def upgrade_state_dict_named(self, state_dict, name):
        drop_old_buffers(state_dict)
        super().upgrade_state_dict_named(state_dict, name)


@register_model_architecture(EPS_ARCHITECTURE, EPS_ARCHITECTURE)
def _set_architecture_defaults(args: Any) -> None:
    if getattr(args, "layer_norm_eps", None) is None:
        args.layer_norm_eps = BERT_EPSILON
    check_epsilon(args.layer_norm_eps, "layer_norm_eps")
    base_architecture(args)


def _set_layer_norm_eps(model: nn.Module, epsilon: float) -> None:
    """Set the epsilon of all layer norms, PyTorch's or apex's."""
    for module in model.modules():
        if hasattr(module, "normalized_shape"):
            setattr(module, "eps", epsilon)  # noqa: B010  a module has only tensors for type checkers
