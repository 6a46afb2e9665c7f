"""``evaluate --perplexity`` against fairseq-validate."""

import json
import re
import shutil

import pytest

from .. import stock


def test_perplexity_is_fairseqs_and_its_masks_do_not_depend_on_the_batch(evaluate, trained, mlm_data, caplog, tmp_path):
    checkpoint, found = trained() / "checkpoint_last.pt", {}
    for name, options in {"one": (), "again": ("--max-tokens", 16), "seed": ("--seed", 2), "short": ("--positions", 8)}.items():
        evaluate(checkpoint, "--perplexity", mlm_data, "--json", tmp_path / f"{name}.json", "--device", "cpu", "--seed", 7, *options)
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["one"]["masked"] == found["again"]["masked"] and found["one"]["bits"] == pytest.approx(found["again"]["bits"], abs=1e-6)
    assert found["seed"]["bits"] != found["one"]["bits"] and found["short"]["positions"] == 8
    caplog.set_level("INFO")
    stock.command("validate", mlm_data, "--user-dir", stock.PLUGIN, "--task", "masked_lm", "--path", checkpoint, "--batch-size", 8, "--cpu",
                  "--num-workers", 0, "--required-batch-size-multiple", 1, "--log-format", "json")  # fmt: skip  (with 8, its default, it leaves out what is over)
    assert found["one"]["bits"] == pytest.approx(stock.last_number(caplog.text, "valid_loss"), abs=0.001)


def test_text_that_is_cut_off_has_no_perplexity(evaluate, trained, mlm_data, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(mlm_data, data)
    for end, said in (("bin", "valid.bin has .* bytes"), ("idx", "valid.idx is cut off")):
        whole = (data / f"valid.{end}").read_bytes()
        (data / f"valid.{end}").write_bytes(whole[:-1] if end == "bin" else whole[:20])
        assert re.search(said, evaluate(trained() / "checkpoint_last.pt", "--perplexity", data)), end
        (data / f"valid.{end}").write_bytes(whole)
