"""Why it works: the spectrum of attention (Figure 1 of the paper) and its two theorems, in numbers.

    loading -> attention_model      any encoder, and its context mapping matrices P
    singular -> spectrum -> result  Figure 1: sums over sentences (texts), then arrays, numbers and the k they suggest
    heads                           Q, K, V, E and F of single heads
    theorem1, theorem2, rank_k      quantities of the theorems and of the best approximation; ``theorems`` collects them
    run, theorems                   what ``fairseq-linformer analyze`` calls; figures, theorem_figures
"""
