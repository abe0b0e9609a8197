"""The fuzzer of model files runs, makes mutants of every kind, and finds nothing in a short run."""

import numpy as np
import pytest

pytest.importorskip("fuzz.judge")
model_files = pytest.importorskip("fuzz.model_files")


@pytest.mark.filterwarnings("ignore")
def test_a_short_run_finds_nothing():
    counts = model_files.run(None, 400, 11)
    assert counts.cases >= 400
    assert counts.answers > 20
    assert counts.refusals > 200
    assert [(finding.kind, finding.where) for finding in counts.findings] == []


@pytest.mark.filterwarnings("ignore")
def test_past_findings_are_refused_for_what_is_wrong_with_them():
    reasons = {}
    for told, data in model_files.find_again(list(model_files.make_seeds())):
        with pytest.raises(ValueError, match=r"\S") as refused:
            model_files.try_file(data)
        reasons[told] = str(refused.value)
    assert len(reasons) == 9
    assert [told for told, reason in reasons.items() if "no fit leaves" in reason] == []  # a stale format


@pytest.mark.filterwarnings("ignore")
def test_a_run_is_made_again_from_its_seed():
    seeds = list(model_files.make_seeds())
    mutants = [[model_files.mutate(seeds[0], np.random.default_rng(7)) for _ in range(3)] for _ in range(2)]
    assert mutants[0] == mutants[1]
    assert mutants[0][0] != seeds[0].data
