"""Time, memory and operations of the Linformer and its peers.

``python -m fairseq_linformer.benchmark OUT`` measures the modules and needs PyTorch only. ``fairseq-linformer
benchmark`` also measures whole models and other libraries, and writes the ledger.

    cells, grouping                              measuring into a folder of JSON; which cells are compared
    inference, scaling, training, train_process  kinds of cells: Table 3, Table 1 and Figure 2, a step, fairseq-train
    encoders, families, models                   what is compared
    timing, memory, flops, fused_attention       how it is measured
"""
