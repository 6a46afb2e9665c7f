"""Why it works: the spectrum of attention (Figure 1 of the paper) and its two theorems, in numbers."""
