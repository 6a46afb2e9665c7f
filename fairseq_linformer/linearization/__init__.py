"""Conversion of a Transformer to a Linformer, with distillation."""
