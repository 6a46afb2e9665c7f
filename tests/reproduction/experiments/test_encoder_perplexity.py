"""Masked LM on an encoder: measured on a tiny one, and the rules from both sides."""

import math
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.cli import main
from fairseq_linformer.evaluation.perplexity import compute_perplexity
from fairseq_linformer.launching.run_folder import CONFIG
from fairseq_linformer.reproduction import ledger, scoring, shared_work
from fairseq_linformer.reproduction.experiments.encoder_perplexity import NAME, SIZES, identifier, join_records, label
from fairseq_linformer.reproduction.experiments.figure_3 import NEARLY
from fairseq_linformer.reproduction.masked_head import PREFIX, TIED, HeadTraining, train_head
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.shared_work import LOCKS, lock
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ...forked_worker import quick_workers  # noqa: F401
from ..sample_records import record
from .tiny_encoder import write_encoder

SMOKE, ENCODER = SIZES["smoke"], SIZES["encoder"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The options of the command."""
    folder = tmp_path_factory.mktemp("masked-lm")
    return [*write_encoder(folder), "--runs", str(folder / "runs")]


@pytest.fixture(scope="module")
def results(inputs, tmp_path_factory):
    """The ledger, measured while another process trains a model, and at first the head, which this process awaits."""
    results = tmp_path_factory.mktemp("results")
    locks = Path(inputs[-1]) / "smoke" / NAME / LOCKS
    with lock(locks / "k8-headwise-w4-graded-seed1"), ExitStack() as head, pytest.MonkeyPatch.context() as patch:
        head.enter_context(lock(locks / "head"))
        patch.setattr(shared_work.time, "sleep", lambda _: head.close())
        main(["reproduce", NAME, *inputs, "--results", str(results)])
    assert [path.name for path in results.glob("*.json")] == [f"{NAME}-transformer-smoke.json"]
    main(["reproduce", NAME, *inputs, "--results", str(results)])
    return results


@pytest.mark.slow
@pytest.mark.long
def test_records(results):
    records = ledger.read_folder(results)
    assert {r.identifier for r in records} == {identifier("smoke", model) for model in SMOKE.models}
    whole = join_records(records, "smoke")
    assert [m.model for m in whole.select("perplexity")] == [label(model) for model in SMOKE.models]
    before = {m.model: m.value for m in whole.select("bits_before")}
    after = {m.model: m.value for m in whole.select("bits", seed=None)}
    assert after["roberta"] < before["roberta"] and before.keys() == after.keys()
    assert all(curve.points[-1][0] == SMOKE.updates for curve in whole.curves)
    assert records[0].configuration["encoder"]["lm_head"] == "trained for 4 updates, encoder frozen"
    (table,) = find(NAME).tables(records)
    assert [row[0] for row in table.rows] == [*(label(model) for model in SMOKE.models), "without context"]


@pytest.mark.slow
@pytest.mark.long
def test_a_trained_run_of_other_options_is_rejected_although_it_is_not_scored(results, inputs, tmp_path):
    run = Path(inputs[-1]) / "smoke" / NAME / f"{SMOKE.models[1].name}-seed1"
    kept = {path: path.read_text() for path in (run / scoring.PERPLEXITY, run / CONFIG)}
    (run / scoring.PERPLEXITY).unlink()
    (run / CONFIG).write_text(kept[run / CONFIG].replace("max_update: ", "max_update: 1"))
    with pytest.raises(SystemExit, match="seed1 has a different configuration: optimization.max_update must be 1"):
        main(["reproduce", NAME, *inputs, "--results", str(tmp_path)])
    for path, text in kept.items():
        path.write_text(text)


@pytest.mark.slow
@pytest.mark.long
def test_only_the_head_is_trained(results, inputs, tmp_path):
    folder, data = Path(inputs[-1]) / "smoke", Path(inputs[inputs.index("--data") + 1]) / "shard0"
    before = read_checkpoint(folder / "models/transformer/model.pt")
    options = HeadTraining(32, 30, 4, 1e-2, False)  # more than an epoch
    after = train_head(before, data, options)
    changed = {name for name in before["model"] if not torch.equal(before["model"][name], after["model"][name])}
    assert changed == {name for name in before["model"] if name.startswith(PREFIX) and name != TIED}
    again = train_head(before, data, options)
    assert all(torch.equal(after["model"][name], again["model"][name]) for name in changed)
    bits = []
    for name, checkpoint in (("before", before), ("after", after)):
        torch.save(checkpoint, tmp_path / f"{name}.pt")
        bits.append(compute_perplexity(tmp_path / f"{name}.pt", data).bits)
    assert bits[1] < bits[0] - 0.1


def synthetic(factors=None, seeds=3, missing=()):
    """A record per model of 3 bits, below 6 without context, but with other factors on the perplexity."""
    records = []
    for model in ENCODER.models:
        name = label(model)
        bits = 3 + math.log2((factors or {}).get(name, 1.0))
        at = {"model": name, "n": ENCODER.n}
        spread = {"interval": (bits, bits), "repetitions": seeds}
        perplexity = {"interval": (2**bits, 2**bits), "repetitions": seeds}
        if seeds == 1:
            spread = perplexity = {}
        measurements = [
            Measurement(metric="perplexity", unit="perplexity", value=2**bits, **perplexity, **at),
            Measurement(metric="bits", unit="bits", value=bits, **spread, **at),
            *(Measurement(metric="bits", unit="bits", value=bits, seed=s + 1, **at) for s in range(seeds)),
            Measurement(metric="context_free_bits", unit="bits", value=6.0, n=ENCODER.n),
        ]
        if name not in missing:
            records.append(
                record(
                    identifier=identifier("encoder", model),
                    experiment=NAME,
                    scale="encoder",
                    measurements=measurements,
                    commit="0" * 40,
                    configuration={"n": ENCODER.n, "commits": {name: "0" * 40}, "head_sha256": "1" * 64},
                )
            )
    return records


@pytest.mark.parametrize(
    "part, model, holds, fails",
    [
        ("k", "k=128", 1.0, 1.01),
        ("k", "k=256", 1.0, 1.01),
        ("quarter", "k=128", NEARLY - 0.001, NEARLY + 0.001),
        ("window", "k=128, W=16", NEARLY - 0.001, NEARLY + 0.001),
        ("projections", "k=128, W=16", 1.0, 1.01),
    ],
)
def test_rules(part, model, holds, fails):
    (claim,) = (each for each in find(NAME).claims if each.identifier == f"{NAME}-{part}")

    def outcome(factor, **options):
        return claim.evaluate(synthetic({model: factor}, **options), "encoder").outcome

    assert (outcome(holds), outcome(fails)) == (HOLDS, FAILS)
    assert outcome(holds, seeds=1) == UNDECIDED and outcome(holds, missing=[model]) == UNDECIDED
    assert claim.evaluate(synthetic({"roberta": 5.0}), "encoder").outcome == UNDECIDED  # it has not learned
    other = synthetic({model: holds})
    other[0].configuration["head_sha256"] = "2" * 64
    assert claim.evaluate(other, "encoder").outcome == UNDECIDED
    assert claim.evaluate([], "encoder").outcome == UNMEASURED
