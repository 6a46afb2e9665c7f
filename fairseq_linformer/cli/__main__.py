"""``python -m fairseq_linformer.cli`` is ``fairseq-linformer``."""

from . import main

if __name__ == "__main__":
    main()
