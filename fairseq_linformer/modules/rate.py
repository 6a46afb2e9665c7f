"""How fast E and F learn.

A row of E has n entries, and an optimizer such as Adam moves each of them by about the learning rate whatever its
gradient is. So the random walk of a row grows with n, while the window averages that it starts from stay as
they are: at the common rate the noise soon outweighs them, the more so the longer n. It is the usual rule for the
fan-in of a matrix, that its rate be in proportion to 1 / fan-in, which here is n and not the width of the model.

Measured with window averages as the start, headwise; perplexity, mean of three seeds. From a converted RoBERTa, k = n /
2, 400 updates on Wikipedia (results/projections-converted.json); from scratch, k = n / 4, 1,500 to 2,500 updates on
other text (results/projections-scratch.json):

    rate    n = 128    256    512        rate    n = 16      32      64
    1/4        43.7   49.1   72.2        1         96.8   143.4   211.2
    1/16       43.9   47.8   58.8        1/4       96.9   132.0   161.2
    1/64       44.1   48.3   58.2        1/16      99.7   137.9   161.7
    1/256      44.4   49.0   61.7

The best rate falls about as 1 / n: 1 to 1/4 at n = 16, 1/4 at 32, 1/4 to 1/16 at 64 and at 128 (where seeds differ by
more), 1/16 at 256, between 1/16 and 1/64 at 512. Sharing and k change little in it: at n = 512 1/16 and 1/64 are best,
or equal, with all four kinds of sharing (one seed, results/projections-sharing.json).
"""


def default_lr_scale(fan_in: int) -> float:
    """Learning rate of E and F relative to that of the other weights: 16 / fan-in, at most 1.

    Args:
        fan_in: n, the positions of the longest input; of a convolution's kernel the length of its window (by the same
            reason; not measured).
    """
    return min(1.0, 16 / fan_in)
