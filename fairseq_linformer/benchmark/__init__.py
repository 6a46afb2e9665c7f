"""Time and memory of the Linformer and its peers.

comparisons        what is measured, for the command and the experiment `speed`
measure            forward passes and training steps, with the models side by side
processes          whole fairseq-train processes
models, encoders   what is compared
timing, memory     how it is measured; rows: how it is reported
flops, gpus        operations, and GPUs' data sheets
"""
