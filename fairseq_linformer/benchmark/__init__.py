"""Time, memory and operations of the Linformer and of what it is compared with.

``python -m fairseq_linformer.benchmark OUT`` needs PyTorch only and measures the modules; ``fairseq-linformer benchmark``
measures whole models and other libraries too, and writes the ledger.
"""
