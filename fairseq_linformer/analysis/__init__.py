"""Measurements of the spectrum of attention (Figure 1 of the paper) and of the paper's two theorems.

Modules:

    loading, attention_model    any encoder, and its context mapping matrices P
    sentences, spectrum         Figure 1: means over the sentences of a text, and the suggested k
    figures                     Figure 1
    heads, theorem1, theorem2   heads of attention, and what the theorems claim of them
"""
