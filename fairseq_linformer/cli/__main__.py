"""``python -m fairseq_linformer.cli``, the same as ``fairseq-linformer``."""

from . import main

if __name__ == "__main__":
    main()
