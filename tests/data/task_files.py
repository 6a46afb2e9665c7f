"""Small files in the format of each source, independent of the table of tasks."""

# (first text, second text, class index); quotes, double and trailing spaces are ordinary characters.
ROWS = {
    "train": [
        ('hello "hello world  low', "I'm 12 naïve 日本 \U0001f600 ", 1),
        (' when are ""bears\'', 'low " lower', 0),
        ("a", "b", 1),
        ("lower lower low", "hello", 0),
        ("kids , spirit ", "</s> <mask>", 1),
    ],
    "valid": [("low hello", "a tale", 0), ("'", '"', 1), ("world", "hello world", 0)],
}
ROWS["valid1"] = ROWS["valid"][::-1]

# Folder, columns of the official files that are read, class labels there and on the hub, configuration and texts of the
# hub.
FORMATS = {
    "sst-2": ("SST-2", "sentence,label", "0 1", "negative positive", "sst2 sentence"),
    "qnli": ("QNLI", "question,sentence,label", *["entailment not_entailment"] * 2, "qnli question sentence"),
    "qqp": ("QQP", "question1,question2,is_duplicate", "0 1", "not_duplicate duplicate", "qqp question1 question2"),
    "imdb": ("imdb", "text,label", "0 1", "neg pos", "plain_text text"),
    "mrpc": ("MRPC", "#1 String,#2 String,Quality", "0 1", "not_equivalent equivalent", "mrpc sentence1 sentence2"),
    "rte": ("RTE", "sentence1,sentence2,label", *["entailment not_entailment"] * 2, "rte sentence1 sentence2"),
    "cola": ("CoLA", "sentence,label", "0 1", "unacceptable acceptable", "cola sentence"),
    "mnli": (
        *("MNLI", "sentence1,sentence2,gold_label"),
        *["entailment neutral contradiction"] * 2,
        "mnli premise hypothesis",
    ),
    "sts-b": ("STS-B", "sentence1,sentence2,score", "1.000 3.800", None, "stsb sentence1 sentence2"),
}
_GLUE = {"train": ("train", "train"), "valid": ("dev", "validation")}
_SPLITS = {
    "imdb": {"train": ("train", "train"), "valid": ("test", "test")},
    "mnli": {
        "train": ("train", "train"),
        "valid": ("dev_matched", "validation_matched"),
        "valid1": ("dev_mismatched", "validation_mismatched"),
    },
}


def splits(name):
    """The names of each split in the official files and on the hub."""
    return _SPLITS.get(name, _GLUE)


def line(name, i, a, b, label):
    """A line of an official file; only CoLA's position of columns matters, which have no names."""
    return f"gj04\t{label}\t*\t{a}" if name == "cola" else "\t".join((str(i), *([a, b] if b else [a]), label))


def tsv(name, split):
    """The bytes of a TSV file. MRPC's begins with a byte order mark and has carriage returns."""
    _, columns, labels, _, hub = FORMATS[name]
    is_pair, end = len(hub.split()) == 3, "\r\n" if name == "mrpc" else "\n"
    lines = [] if name == "cola" else ["\ufeff" * (name == "mrpc") + "\t".join(("index", *columns.split(",")))]
    lines += [line(name, i, a, is_pair and b, labels.split()[c]) for i, (a, b, c) in enumerate(ROWS[split])]
    return "".join(text + end for text in lines).encode()


def write_tsv(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for split, (called, _) in splits(name).items():
        (folder / f"{called}.tsv").write_bytes(tsv(name, split))
    return folder


def write_parquet(name, folder, shards=1):
    """The hub's files: parquet with its features."""
    from datasets import ClassLabel, Dataset, Features, Value, disable_progress_bars

    disable_progress_bars()
    _, _, labels, names, hub = FORMATS[name]
    config, *texts = hub.split()
    features = {text: Value("string") for text in texts}
    features["label"] = ClassLabel(names=names.split()) if names else Value("float32")
    (folder / config).mkdir(parents=True)
    for split, (_, called) in splits(name).items():
        rows = ROWS[split]
        columns = {text: [row[i] for row in rows] for i, text in enumerate(texts)}
        columns["label"] = [c if names else float(labels.split()[c]) for _, _, c in rows]
        data = Dataset.from_dict(columns, features=Features(features))
        for i in range(shards):
            path = folder / config / f"{called}-{i:05}-of-{shards:05}.parquet"
            data.shard(shards, i, contiguous=True).to_parquet(path)
    return folder


def write_reviews(folder):
    """aclImdb; numbers have two digits too, because by name 14_4.txt comes before 7_4.txt."""
    files = {"train/unsup/0_0.txt": "none", "train/neg/.DS_Store": "\0", "train/neg/._0_4.txt": "\0"}
    for split, called in (("train", "train"), ("valid", "test")):
        for label, name in enumerate(("neg", "pos")):
            texts = [a for a, _, c in ROWS[split] if c == label]
            files |= {f"{called}/{name}/{7 * i}_4.txt": text for i, text in enumerate(texts)}
    for name, text in files.items():
        path = folder / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder / "aclImdb"


def content(out):
    """Content of each file in a folder."""
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def bins(out):
    """Content of each file in a folder, except the manifest."""
    return {name: found for name, found in content(out).items() if name != "manifest.json"}
