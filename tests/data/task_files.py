"""Small files in the exact format of each source, independent of the table of tasks."""

import json

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

# Folder, header, line of train, line of dev, class names in TSV and on the hub, configuration and columns of the hub.
_TREES = "( {a} )\t( {b} )\t(ROOT {a})\t(ROOT {b})"
FORMATS = {
    "sst-2": ("SST-2", "sentence\tlabel", "{a}\t{l}", None, "0 1", "negative positive", "sst2 sentence"),
    "qnli": (
        "QNLI",
        "index\tquestion\tsentence\tlabel",
        "{i}\t{a}\t{b}\t{l}",
        None,
        "entailment not_entailment",
        "entailment not_entailment",
        "qnli question sentence",
    ),
    "qqp": (
        "QQP",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "{i}\t3{i}\t4{i}\t{a}\t{b}\t{l}",
        None,
        "0 1",
        "not_duplicate duplicate",
        "qqp question1 question2",
    ),
    "imdb": ("imdb", "id\tlabel\ttext", "neg/{i}_3\t{l}\t{a}", None, "0 1", "neg pos", "plain_text text"),
    "mrpc": (
        "MRPC",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "{l}\t70{i}\t80{i}\t{a}\t{b}\r",
        None,
        "0 1",
        "not_equivalent equivalent",
        "mrpc sentence1 sentence2",
    ),
    "rte": (
        "RTE",
        "index\tsentence1\tsentence2\tlabel",
        "{i}\t{a}\t{b}\t{l}",
        None,
        "entailment not_entailment",
        "entailment not_entailment",
        "rte sentence1 sentence2",
    ),
    "cola": ("CoLA", None, "gj04\t{l}\t*\t{a}", None, "0 1", "unacceptable acceptable", "cola sentence"),
    "mnli": (
        "MNLI",
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
        "sentence1\tsentence2\tlabel1\tgold_label",
        "{i}\t31\t31n\tfiction\t" + _TREES + "\t{a}\t{b}\tneutral\t{l}",
        "{i}\t31\t31n\tfiction\t" + _TREES + "\t{a}\t{b}\tneutral\tneutral\tneutral\tneutral\tneutral\t{l}",
        "entailment neutral contradiction",
        "entailment neutral contradiction",
        "mnli premise hypothesis",
    ),
    "sts-b": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{i}\tmain-captions\tMSRvid\t2012test\t000{i}\tnone\tnone\t{a}\t{b}\t{l}",
        None,
        "1.000 3.800",
        None,
        "stsb sentence1 sentence2",
    ),
}
_MNLI_DEV = FORMATS["mnli"][1].replace("label1", "label1\tlabel2\tlabel3\tlabel4\tlabel5")


def splits(name):
    return ["train", "valid", "valid1"] if name == "mnli" else ["train", "valid"]


def file_of(name, split):
    if split == "train":
        return "train.tsv"
    return {"mnli": {"valid": "dev_matched.tsv", "valid1": "dev_mismatched.tsv"}, "imdb": {"valid": "test.tsv"}}.get(
        name, {"valid": "dev.tsv"}
    )[split]


def tsv(name, split):
    """The bytes of a TSV file."""
    _, header, train, dev, labels, _, _ = FORMATS[name]
    line = dev if dev and split != "train" else train
    if header and name == "mnli" and split != "train":
        header = _MNLI_DEV
    lines = [line.format(i=i, a=a, b=b, l=labels.split()[c]) for i, (a, b, c) in enumerate(ROWS[split])]
    end = "\r\n" if name == "mrpc" else "\n"
    return "".join([*([header + end] if header else []), *(text + "\n" for text in lines)]).encode()


def write_tsv(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits(name):
        (folder / file_of(name, split)).write_bytes(tsv(name, split))
    return folder


def write_parquet(name, folder, change=lambda columns: columns, shards=1):
    """The hub's files: parquet with its features, and the card that names the configurations."""
    from datasets import ClassLabel, Dataset, Features, Value, disable_progress_bars

    disable_progress_bars()
    _, _, _, _, labels, names, (config, *texts) = *FORMATS[name][:6], FORMATS[name][6].split()
    hub = {"train": "train", "valid": "test" if name == "imdb" else "validation"}
    if name == "mnli":
        hub = {"train": "train", "valid": "validation_matched", "valid1": "validation_mismatched"}
    features = {text: Value("string") for text in texts}
    features["label"] = ClassLabel(names=names.split()) if names else Value("float32")
    if name != "imdb":
        features["idx"] = Value("int32")
    (folder / config).mkdir(parents=True, exist_ok=True)
    card = {
        "configs": [
            {"config_name": other, "data_files": [{"split": "train", "path": f"{other}/train-*"}]}
            for other in ("ax", config)
        ]
    }
    (folder / "README.md").write_text(f"---\n{json.dumps(card)}\n---\n")
    for split, called in hub.items():
        rows = ROWS[split]
        columns = {text: [row[i] for row in rows] for i, text in enumerate(texts)}
        columns["label"] = [c if names else float(labels.split()[c]) for _, _, c in rows]
        if name != "imdb":
            columns["idx"] = list(range(len(rows)))
        data = Dataset.from_dict(change(columns), features=Features(features))
        for i in range(shards):
            data.shard(shards, i, contiguous=True).to_parquet(
                folder / config / f"{called}-{i:05}-of-{shards:05}.parquet"
            )
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
