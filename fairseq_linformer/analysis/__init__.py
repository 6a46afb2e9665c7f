"""Measurements of the spectrum of attention (Figure 1 of the paper) and of the paper's two theorems.

Modules:

    loading, attention_model            any encoder, and its context mapping matrices P
    singular, spectrum, spectrum_result Figure 1: sums over sentences (sentences.py), then arrays and the suggested k
    heads, theorem1, theorem2           heads of attention, and what the theorems claim of them
    commands                            entry points of ``fairseq-linformer analyze``
    figures                             charts
"""
