"""An exported folder works without fairseq and this package."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.huggingface.exported_code import read_source_files

from .. import fairseq_commands
from ..checkpoint_fixtures import hub


def test_imports_of_exported_files_are_flat():
    files = read_source_files()
    assert {"config.py", "encoder.py", "modeling_linformer.py"} < files.keys()
    for name, source in files.items():
        for line in re.findall(r"^\s*(?:from|import) .*", source, flags=re.MULTILINE):
            if match := re.match(r"\s*from \.(\w+) import", line):
                assert f"{match[1]}.py" in files, (name, line)
            else:
                assert not re.search(r"from \.|fairseq", line), (name, line)


@pytest.mark.slow
def test_exported_folder_works_without_fairseq_and_this_package(
    masked_lm, masked_lm_folder, classifier, classifier_folder, pieces, tmp_path, extra_environment
):
    texts, masked = ["the cat sat on the mat", "a dog ran", "a Zebra sat"], "the cat sat on the <mask>"
    theirs, finetuned = hub(masked_lm, masked_lm), hub(classifier, pieces)
    rows = [theirs.encode(text) for text in texts]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
    with torch.no_grad():
        expected = {
            "texts": texts,
            "tokens": tokens,
            "features": theirs.extract_features(tokens),
            "logits": theirs.model(tokens)[0],
            "classes": finetuned.predict("animal", tokens, return_logits=True),
            "labels": ["animal: cat", "dog"],
            "masked": masked,
            "filled": [(score, token.strip()) for _, score, token in theirs.fill_mask(masked, topk=4)],
        }
    assert len({score for score, _ in expected["filled"]}) == 4
    torch.save(expected, tmp_path / "expected.pt")
    script, bin_ = Path(__file__).with_name("offline_user.py"), extra_environment("huggingface")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [bin_ / "python", script, masked_lm_folder, classifier_folder, tmp_path / "expected.pt", tmp_path / "saved"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and "as expected" in run.stdout, run.stderr[-3000:]
    words = [bin_ / "fairseq-linformer", "export", masked_lm / "checkpoint_last.pt", tmp_path / "out"]
    run = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "needs fairseq, which is not installed" in run.stderr
    # A copy saved there is imported into fairseq unchanged.
    for folder, source in (("mlm", masked_lm), ("cls", classifier)):
        convert(tmp_path / "saved" / folder, tmp_path / "back" / folder)
        state = fairseq_commands.load(tmp_path / "back" / folder, "model.pt")["model"]
        before = fairseq_commands.load(source)["model"]
        assert state.keys() == before.keys() and all(torch.equal(state[key], before[key]) for key in before)
