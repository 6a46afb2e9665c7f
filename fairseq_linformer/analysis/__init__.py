"""Measurements of the spectrum of attention (Figure 1 of the paper) and of the paper's two theorems.

Modules:

    loading, attention_model            any encoder, and its context mapping matrices P
    singular, spectrum, spectrum_result Figure 1: sums over sentences (sentences.py), then arrays and the suggested k
    heads                               Q, K, V, E and F of single heads
    theorem1, theorem2, rank_k          quantities in the theorems, and the best approximation of each rank
    commands, theorems                  entry points of ``fairseq-linformer analyze``
    figures, theorem_figures            charts
"""
