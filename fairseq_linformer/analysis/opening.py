"""Any encoder, opened to look at its attention: a fairseq RoBERTa or Linformer, or a model of ``transformers``.

    B sentences, n positions, L layers, H heads, m columns (n, or of a Linformer the k' that n positions reach)
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import Tensor, nn

from ..errors import first_line
from ..files import sha256
from ..modules import LinearMultiheadAttention, LinformerEncoder

Receiver = Callable[[int, Tensor], None]
"""Is handed (layer, weights (B, H, n, m)), layer by layer."""


@dataclass
class Opened:
    """An encoder in eval mode with its tokenizer.

    Attributes:
        kind: ``roberta`` (a checkpoint of fairseq), ``linformer`` or ``transformers``.
        module: what is called.
        encoder: the LinformerEncoder of the first two kinds. That of a RoBERTa has k = n and E = F = identity, with which it
            is RoBERTa exactly; fairseq's own attention gives the mean over heads, even if it is asked for each.
        n: the longest input.
        tokenizer: of ``transformers``; None if none was wanted.
        bos, eos, pad: numbers of <s>, </s> and padding; None where the model has none.
        identity: what tells this model and tokenizer from others.
        layers, heads: counted with a first input.
    """

    name: str
    kind: str
    module: nn.Module
    encoder: Optional[LinformerEncoder]
    n: int
    tokenizer: Any
    bos: Optional[int]
    eos: Optional[int]
    pad: Optional[int]
    identity: Dict[str, Any]
    layers: int = field(init=False, default=0)
    heads: int = field(init=False, default=0)

    def __post_init__(self):
        shapes: List[tuple] = []
        token = next(t for t in (self.eos, self.bos, 0) if t is not None)
        length = min(4, self.n)
        self.maps(torch.full((1, length), token), torch.zeros(1, length, dtype=torch.bool), lambda layer, weights: shapes.append(weights.shape))
        if not shapes:
            raise ValueError(f"{self.name} gives no attention weights; an encoder with softmax attention in every layer is wanted")
        heads = {shape[1] for shape in shapes}
        if len(heads) > 1:
            raise ValueError(f"{self.name} has layers of {', '.join(map(str, sorted(heads)))} heads; all layers must have as many")
        self.layers, self.heads = len(shapes), heads.pop()

    @property
    def short_name(self) -> str:
        """For figures: a checkpoint with its folder (fairseq calls them all checkpoint_last.pt), anything else by its last name."""
        path = Path(self.name)
        return "/".join(path.absolute().parts[-2:]) if path.is_file() else path.name

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def maps(self, tokens: Tensor, padding_mask: Tensor, receive: Receiver) -> None:
        """Run sentences and hand on the context mapping matrices of every layer.

        Of a checkpoint of fairseq or a Linformer those of one layer are there at a time; ``transformers`` returns all at once.

        Args:
            tokens: (B, n) integers.
            padding_mask: (B, n), True at padding, behind the sentence.
            receive: is called with (layer, weights (B, H, n, m)).

        Raises:
            ValueError: the model gives no attention weights, or none of this shape.
        """
        tokens, padding_mask = tokens.to(self.device), padding_mask.to(self.device)
        with torch.inference_mode():
            if self.encoder is not None:
                self._maps_of_encoder(tokens, padding_mask, receive)
            else:
                self._maps_of_transformers(tokens, padding_mask, receive)

    def _maps_of_encoder(self, tokens, padding_mask, receive) -> None:
        def ask(module, arguments, keywords):
            return arguments, {**keywords, "need_weights": True}

        def hand_on(layer):
            def hook(module, arguments, output):
                receive(layer, output[1])
                return output[0], None

            return hook

        handles = []
        try:
            for layer, module in enumerate(attentions(self.encoder)):
                handles += [module.register_forward_pre_hook(ask, with_kwargs=True), module.register_forward_hook(hand_on(layer))]
            self.encoder(tokens, padding_mask=padding_mask)
        finally:
            for handle in handles:
                handle.remove()

    def _maps_of_transformers(self, tokens, padding_mask, receive) -> None:
        try:
            output = self.module(input_ids=tokens, attention_mask=(~padding_mask).long(), output_attentions=True, return_dict=True)
        except TypeError as error:
            if "output_attentions" not in str(error):
                raise
            output = None
        except (RuntimeError, IndexError, ValueError) as error:
            raise ValueError(f"{self.name} cannot be run on sentences of {tokens.size(1)} tokens: {first_line(error)}") from None
        weights = getattr(output, "attentions", None)
        if not weights or any(w is None for w in weights):
            raise ValueError(f"{self.name} gives no attention weights; an encoder with softmax attention in every layer is wanted")
        B, n = tokens.shape
        for layer, map_ in enumerate(weights):
            if map_.dim() != 4 or (map_.size(0), *map_.shape[2:]) != (B, n, n):
                raise ValueError(f"{self.name} gives attention weights of shape {tuple(map_.shape)}; ({B}, heads, {n}, {n}) is wanted")
            receive(layer, map_.float())


def attentions(encoder: LinformerEncoder) -> List[LinearMultiheadAttention]:
    """The attention of each layer."""
    return [module for module in encoder.modules() if isinstance(module, LinearMultiheadAttention)]


def open_model(model, device: str = "cpu", tokenizer: bool = True, dictionary=None, sentencepiece=None, gpt2=None) -> Opened:
    """An encoder from a file, a folder or the hub.

    Args:
        model: a file is a checkpoint of fairseq (RoBERTa, this Linformer or the authors'), read as weights only; a folder is one
            of ``transformers``; anything else is a name on the hub, such as ``roberta-base``. No code of it is run.
        device: as PyTorch writes it.
        tokenizer: False to open none.
        dictionary: fairseq's ``dict.txt``; None for the one beside the checkpoint (or in ``gpt2``).
        sentencepiece: a model of sentencepiece; None for ``sentencepiece.bpe.model`` beside the checkpoint, or
        gpt2: a folder with ``encoder.json`` and ``vocab.bpe``; None for those beside the checkpoint.

    Raises:
        ValueError: it is not there, cannot be read, or has no attention weights; an option is for the other kind; a sentence.
    """
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"device is {device!r}; PyTorch cannot compute there") from None
    if os.path.isfile(model):
        from .opening_fairseq import open_checkpoint

        return open_checkpoint(Path(model), place, tokenizer, dictionary, sentencepiece, gpt2)
    if str(model).endswith(".pt"):
        raise ValueError(f"{model} is neither a file nor a folder; a checkpoint of fairseq, a folder of transformers or a name on the hub is wanted")
    for name, value in (("dictionary", dictionary), ("sentencepiece", sentencepiece), ("gpt2", gpt2)):
        if value is not None:
            raise ValueError(f"{name} is {value}, which is for a checkpoint of fairseq; {model} is not a file and has its own tokenizer")
    return _open_transformers(str(model), place, tokenizer)


def _open_transformers(name: str, device: torch.device, wants_tokenizer: bool) -> Opened:
    from transformers import AutoModel, AutoTokenizer

    from ..huggingface import LinformerTokenizer  # also makes AutoModel know a Linformer, without the code of its folder

    if not os.path.isdir(name) and (name.startswith((".", "/")) or name.count("/") > 1):
        raise ValueError(f"{name} is neither a file nor a folder; a checkpoint of fairseq, a folder of transformers or a name on the hub is wanted")
    try:
        module, info = AutoModel.from_pretrained(name, attn_implementation="eager", trust_remote_code=False, dtype=torch.float32, output_loading_info=True)
        kind = LinformerTokenizer if module.config.model_type == "linformer" else AutoTokenizer
        tokenizer = kind.from_pretrained(name, trust_remote_code=False) if wants_tokenizer else None
    except ImportError:
        raise
    except Exception as error:  # everything that a folder or the network can have
        raise ValueError(f"{name} cannot be opened with transformers: {type(error).__name__}: {first_line(error)}") from None
    if missing := sorted(key for key in info["missing_keys"] if "pooler" not in key):  # the pooler comes after all attention
        raise ValueError(f"{name} has no weights for {missing[0]}{f' and {len(missing) - 1} others' if missing[1:] else ''}; they would be random")
    if tokenizer is not None:
        _check_tokenizer(name, tokenizer, module)
    if module.config.is_encoder_decoder:
        module = module.get_encoder()
    module = module.to(device).eval()
    encoder = next((part for part in module.modules() if isinstance(part, LinformerEncoder)), None)
    n = encoder.config.max_positions if encoder is not None else _longest(name, module)
    special = (None, None, None)
    if tokenizer is not None:
        tokenizer.model_max_length = int(1e30)  # sentences are cut here; it would warn about each
        first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
        special = (tokenizer.bos_token_id if first is None else first, tokenizer.eos_token_id if last is None else last, tokenizer.pad_token_id)
    return Opened(name, "linformer" if encoder is not None else "transformers", module, encoder, n, tokenizer, *special, _identity(name, module))


def _check_tokenizer(name: str, tokenizer, module: nn.Module) -> None:
    """
    Raises:
        ValueError: it knows no words (transformers makes up one where files are missing), or more than the model.
    """
    entries, rows = len(tokenizer), module.get_input_embeddings().num_embeddings
    if entries <= len(set(tokenizer.all_special_ids)):
        raise ValueError(f"{name} has no tokenizer: that which transformers makes of it knows special symbols only")
    if entries > rows:
        raise ValueError(f"the tokenizer of {name} has {entries:,} entries, the model embeddings for {rows:,}; it is another model's")


def _longest(name: str, module: nn.Module) -> int:
    """n. RoBERTa's table has the row of padding and those before it at its beginning."""
    for part, table in module.named_modules():
        if part.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    said = getattr(module.config, "max_position_embeddings", None) or 0
    return int(said) if said > 0 else 512  # XLNet says -1


def _identity(name: str, module: nn.Module) -> Dict[str, Any]:
    if not os.path.isdir(name):
        return {"hub": name, "commit": getattr(module.config, "_commit_hash", None)}
    return {"files": {path.name: sha256(path) for path in sorted(Path(name).iterdir()) if path.is_file()}}
