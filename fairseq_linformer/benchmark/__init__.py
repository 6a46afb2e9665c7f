"""Time, memory and operations of the Linformer and its peers.

cells                                        measuring into a folder of JSON
inference, scaling, training, train_process  kinds of cells: Table 3, Table 1 and Figure 2, a step, fairseq-train
encoders, families, models                   what is compared
timing, memory, flops, fused_attention       how it is measured
gpu_check                                    correctness and speed on a GPU; needs PyTorch only
"""
