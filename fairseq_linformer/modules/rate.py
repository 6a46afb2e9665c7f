"""How fast E and F learn.

A row of E has n entries, and an optimizer such as Adam moves each of them by about the learning
rate whatever its gradient is. So the way that a row goes at random grows with n, while the
window averages that it starts from stay as they are: at the common rate the noise soon
outweighs them, the more so the longer n. It is the usual rule for the fan-in of a matrix, that
its rate be in proportion to 1 / fan-in, which here is n and not the width of the model.

Measured on Wikipedia from a converted RoBERTa, k = n / 2, headwise, average starts, 400 updates:
perplexity, mean of three seeds (results/projections-converted.json)

    rate of E and F    n = 128    n = 256    n = 512
    1/4                  43.7       49.1       72.2
    1/16                 43.9       47.8       58.8
    1/64                 44.1       48.3       58.2
    1/256                44.4       49.0       61.7

The best rate falls about as 1 / n: at least 1/4, near 1/16, and between 1/16 and 1/64.
"""


def default_lr_scale(fan_in: int) -> float:
    """Learning rate of E and F relative to that of the other weights: 16 / fan-in, at most 1.

    Args:
        fan_in: n, the positions of the longest input; of a convolution's kernel the length of its
            window (by the same reason; not measured).
    """
    return min(1.0, 16 / fan_in)
