"""The learning rate of E and F.

A row of E has n entries, and an optimizer such as Adam moves each by about the learning rate, regardless of its
gradient. The random walk of a row therefore grows with n, while the window averages that it starts from do not: at the
common rate the noise soon outweighs them, the sooner the larger n. This is the usual rule that the learning rate of a
matrix is proportional to 1 / fan-in, which here is n rather than the width of the model.

Measured with headwise sharing, starting from window averages; perplexity, mean of three seeds. From a converted
RoBERTa, k = n / 2, 400 updates on Wikipedia; from scratch, k = n / 4, 1,500 to 2,500 updates on other text
(results/initialization):

    rate    n = 128    256    512        rate    n = 16      32      64
    1/4        43.7   49.1   72.2        1         96.8   143.4   211.2
    1/16       43.9   47.8   58.8        1/4       96.9   132.0   161.2
    1/64       44.1   48.3   58.2        1/16      99.7   137.9   161.7
    1/256      44.4   49.0   61.7

The best rate falls roughly as 1 / n: 1 to 1/4 at n = 16, 1/4 at 32, 1/4 to 1/16 at 64 and at 128 (where seeds differ by
more), 1/16 at 256, between 1/16 and 1/64 at 512. Sharing and k hardly change it: at n = 512, 1/16 or 1/64 is the best,
or equal to it, for all four kinds of sharing (one seed).
"""


def default_lr_scale(fan_in: int) -> float:
    """Learning rate of E and F relative to that of the other weights: 16 / fan-in, at most 1.

    Args:
        fan_in: max_positions, or the window length of a convolution (by the same argument; not measured).
    """
    return min(1.0, 16 / fan_in)
