"""Time, memory and operations of the Linformer and of what it is compared with.

``python -m fairseq_linformer.benchmark OUT`` needs PyTorch only and measures the modules; ``fairseq-linformer
benchmark`` measures whole models and other libraries too, and writes the ledger.

    cells, entries                               measuring into a folder of JSON; which cells are one ledger entry
    inference, scaling, training, train_process  kinds of cells: Table 3, Table 1 and Figure 2, a step, fairseq-train
    encoders, families, models                   what is compared
    timing, memory, flops, fused_attention       how it is measured
"""
