"""A Transformer in, a Linformer with nearly the same features out."""
