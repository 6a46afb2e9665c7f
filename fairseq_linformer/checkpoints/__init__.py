"""Conversion of checkpoints: RoBERTa, the authors' plugin, another n or k, ``transformers``, ONNX."""
