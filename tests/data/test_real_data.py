"""Published files, if LINFORMER_DATA names a folder with glue/SST-2, glue/QNLI, glue/QQP, imdb and gpt2_bpe."""

import os
from pathlib import Path

import numpy as np
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.data.prepare_task import prepare_task
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.data.tokenizer import GPT2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("LINFORMER_DATA" not in os.environ, reason="LINFORMER_DATA is not set"),
]


@pytest.mark.parametrize(
    "name, folder", [("sst-2", "glue/SST-2"), ("qnli", "glue/QNLI"), ("qqp", "glue/QQP"), ("imdb", "imdb")]
)
def test_published_files_are_prepared_completely(name, folder, tmp_path):
    source = Path(os.environ["LINFORMER_DATA"]) / folder
    manifest = prepare_task(
        TASKS[name], tmp_path / "out", source, GPT2(source.parent / ("gpt2_bpe" if name == "imdb" else "../gpt2_bpe"))
    )
    for split, file in TASKS[name].tsv.files.items():
        lines = (source / file).read_bytes().count(b"\n")
        counts = manifest["splits"][split]
        assert (
            lines - 1 == counts["read"]
            and counts["read"] - counts["written"] <= 0.001 * lines
            and not counts["unknown"]
        )
        inputs = [
            MMapIndexedDataset(str(tmp_path / "out" / f"input{i}" / split)) for i in range(TASKS[name].num_inputs)
        ]
        positions = sum(np.asarray(data.sizes) + 1 for data in inputs)
        assert (
            len(positions) == counts["written"] and positions.max() <= 512 and (positions == 512).sum() >= counts["cut"]
        )
