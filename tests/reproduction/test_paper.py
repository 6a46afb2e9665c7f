"""The numbers of the paper against a second transcription, from the published text."""

from statistics import mean

from fairseq_linformer.reproduction import paper

TABLE_1 = """
recurrent    O(n)          O(n)
transformer  O(n^2)        O(1)
sparse       O(n sqrt(n))  O(1)
reformer     O(n log(n))   O(log(n))
linformer    O(n)          O(1)
"""
TABLE_2 = """
n     model                            SST-2  IMDB  QNLI  QQP   average
512   RoBERTa-base                     93.1   94.1  90.9  90.9  92.25
512   Linformer, 128                   92.4   94.0  90.4  90.2  91.75
512   Linformer, 128, shared kv        93.4   93.4  90.3  90.3  91.85
512   Linformer, 128, shared kv, layer 93.2   93.8  90.1  90.2  91.83
512   Linformer, 256                   93.2   94.0  90.6  90.5  92.08
512   Linformer, 256, shared kv        93.3   93.6  90.6  90.6  92.03
512   Linformer, 256, shared kv, layer 93.1   94.1  91.2  90.8  92.30
512   BERT-base                        92.7   93.5  91.8  89.6  91.90
512   Distilled BERT                   91.3   92.8  89.2  88.5  90.45
1024  Linformer, 256                   93.0   93.8  90.4  90.4  91.90
1024  Linformer, 256, shared kv        93.0   93.6  90.3  90.4  91.83
1024  Linformer, 256, shared kv, layer 93.2   94.2  90.8  90.5  92.18
"""
TABLE_3 = """
k =    128  256  512  1024 2048 |  128  256  512  1024 2048
512    1.5  1.3  -    -    -    |  1.7  1.5  -    -    -
1024   1.7  1.6  1.3  -    -    |  3.0  2.9  1.8  -    -
2048   2.6  2.4  2.1  1.3  -    |  6.1  5.6  3.6  2.0  -
4096   3.4  3.2  2.8  2.2  1.3  |  14   13   8.3  4.3  2.3
8192   5.5  5.0  4.4  3.5  2.1  |  28   26   17   8.5  4.5
16384  8.6  7.8  7.0  5.6  3.3  |  56   48   32   16   8
32768  13   12   11   8.8  5.0  |  56   48   36   18   16
65536  20   18   16   14   7.9  |  60   52   40   20   18
"""


def lines(table):
    return [line for line in table.strip().splitlines() if "=" not in line and "model" not in line]


def test_table_1():
    assert {
        (cells := line.split("  "))[0]: tuple(c.strip() for c in cells[1:] if c) for line in lines(TABLE_1)
    } == paper.TABLE_1


def rows_of_table_2():
    sharings = {"": "headwise", "shared kv": "key-value", "shared kv, layer": "layerwise"}
    for line in lines(TABLE_2):
        n, *words = line.split()
        model, _, rest = " ".join(words[:-5]).partition(", ")
        k, _, sharing = rest.partition(", ")
        key = (int(n), int(k), sharings[sharing]) if k else (int(n), None, model)
        yield key, [float(word) for word in words[-5:]]


def test_table_2():
    assert list(paper.TABLE_2) == [key for key, _ in rows_of_table_2()]
    for key, (*accuracies, average) in rows_of_table_2():
        assert paper.TABLE_2[key] == dict(zip(("sst-2", "imdb", "qnli", "qqp"), accuracies))
        assert abs(average - mean(accuracies)) < 0.006  # the last column is the mean over the tasks


def test_table_3():
    columns = (128, 256, 512, 1024, 2048)
    assert columns == paper.TABLE_3_DIMENSIONS
    for line in lines(TABLE_3):
        (n, *time), memory = (half.split() for half in line.split("|"))
        for half, printed in ((paper.TABLE_3_TIME, time), (paper.TABLE_3_MEMORY, memory)):
            found = [paper.table_3(half, int(n), k) for k in columns]
            assert found == [None if number == "-" else float(number) for number in printed]
    assert list(paper.TABLE_3_TIME) == list(paper.TABLE_3_MEMORY) == [2**i for i in range(9, 17)]
    assert paper.table_3(paper.TABLE_3_TIME, 100, 128) is None


def test_matrices_by_sharing():
    """Section 4, at 12 layers and 12 heads: one E and F per layer; one for both; one for all layers."""
    assert paper.MATRICES == {"headwise": 2 * 12, "key-value": 12, "layerwise": 1}
