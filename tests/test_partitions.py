"""Tables in partitions give the model of the table in one piece, with sums alone on the wire."""

import logging
import pickle

import numpy as np
import pandas as pd
import pytest

from evenhand._utils.validation import Rows
from evenhand.estimators.step_fit import StepPlan
from evenhand.solvers.result import Status
from evenhand.tables import (
    batch,
    fit_table,
    iter_predictions,
    numbers,
    partition_tasks,
    partitions,
    predict_table,
    sampling,
    stream_table,
)
from evenhand.tables.model_inputs import make_reader
from evenhand.tables.partition_tasks import PartitionError, Scorer
from evenhand.tables.partitions import LocalPartitions, ScoredPartitions
from tests.partitioned import GROUPS, NAMES, distance, make_frame, make_step, pieces

N_ROWS = 6000
FRAME = make_frame(N_ROWS)
SIZES = {
    "one": [],
    "empty first and last": [0, 3000, 3000],
    "one row each": [1, 1, 0, 1, 2000, 1],
    "many": [37] * 100,
}


def fit_parts(step, chunks, *, ordered=True, sample_weight=None):
    """`fit_table` on partitions in this process, and the number of passes."""
    reader = make_reader(step, **NAMES)
    backend = LocalPartitions(Scorer(reader, reader.layout(), sample_weight), chunks, ordered=ordered)
    table = ScoredPartitions(backend, reader.layout())
    step.step_ = batch._fit_step(StepPlan.of(step, table.groups, table.strata), table, None, None)
    return step


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", 10_000)  # 2000 rows of three groups


# the same answer


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_rows_that_fit_in_memory_give_the_model_of_fit_bit_for_bit(sizes):
    expected = make_step().fit(FRAME["score"], FRAME[GROUPS])
    found = fit_parts(make_step(), pieces(FRAME, sizes))
    assert found.multipliers_.tobytes() == expected.multipliers_.tobytes()


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean", "w1"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_any_partitioning_gives_the_model_of_the_single_machine(sizes, parity, weight, small_memory):
    # Sums in another order end at another point within the tolerance, so that is small here.
    settings = {"parity": parity, "epsilon": 0.01, "tol": 1e-9}
    expected = fit_table(make_step(**settings), FRAME, sample_weight=weight, **NAMES)
    found = fit_parts(make_step(**settings), pieces(FRAME, sizes), sample_weight=weight)
    assert distance(found, expected, FRAME) <= 1e-8
    assert found.n_rows_ == expected.n_rows_
    assert found.certificate_.excess.max() <= 1e-6


@pytest.mark.parametrize("memory", [10_000, 5_000_000], ids=["on workers", "in memory"])
@pytest.mark.parametrize("parity", ["cdf", "w1"])
def test_rows_without_an_order_give_one_model_however_they_are_shuffled(memory, parity, monkeypatch):
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", memory)
    first = fit_parts(make_step(parity=parity), [FRAME], ordered=False)
    for seed, sizes in enumerate(SIZES.values()):
        shuffled = FRAME.sample(frac=1.0, random_state=seed)
        found = fit_parts(make_step(parity=parity), pieces(shuffled, sizes), ordered=False)
        assert distance(found, first, FRAME) <= 1e-8


def test_rows_without_an_order_give_the_model_of_fit():
    # sums in another order end at another point within the tolerance
    expected = make_step(tol=1e-11).fit(FRAME["score"], FRAME[GROUPS])
    shuffled = FRAME.sample(frac=1.0, random_state=0)
    found = fit_parts(make_step(tol=1e-11), pieces(shuffled, SIZES["many"]), ordered=False)
    assert distance(found, expected, FRAME) <= 1e-8


def test_a_shuffled_table_and_the_single_machine_agree_as_far_as_both_are_solved(small_memory):
    shuffled = FRAME.sample(frac=1.0, random_state=0)
    exact = fit_table(make_step(tol=1e-11), FRAME, **NAMES)
    found = fit_parts(make_step(tol=1e-11), pieces(shuffled, SIZES["many"]), ordered=False)
    assert abs(found.certificate_.risk - exact.certificate_.risk) <= 1e-8
    assert np.abs(found.certificate_.violation - exact.certificate_.violation).max() <= 1e-8
    usual = fit_parts(make_step(), pieces(shuffled, SIZES["many"]), ordered=False)
    unit = usual.policy_.grid.half_width**2
    assert abs(usual.certificate_.entropic_risk - exact.certificate_.entropic_risk) <= 2e-6 * unit


def test_copies_of_few_rows_are_one_row_of_their_weight(small_memory):
    few = pd.concat([FRAME[:400]] * 20, ignore_index=True)
    settings = {"beta": 200.0, "tol": 1e-10}
    expected = fit_table(make_step(**settings), few, **NAMES)
    found = fit_parts(make_step(**settings), pieces(few, SIZES["many"]), ordered=False)
    assert found.n_rows_ == len(few)
    assert distance(found, expected, FRAME[:400]) <= 1e-8


def test_a_sample_by_hash_is_the_same_rows_for_any_order_and_about_as_many_as_asked():
    layout = numbers.Layout(("a", "b", "c"), None, None)
    rows = Rows(FRAME["score"].to_numpy(), FRAME[GROUPS].to_numpy(), layout.groups, None)
    table = numbers.row_numbers(rows, None)
    share = {"layout": layout, "share": 0.2, "lowest": -1.0, "highest": 1.0}
    one = partition_tasks.gather_share([table], 0, **share)
    other = partition_tasks.gather_share([table[::-1][:999], table[::-1][999:]], 0, **share)
    np.testing.assert_array_equal(one, other)
    assert len(one) == pytest.approx(0.2 * N_ROWS, abs=4 * np.sqrt(0.16 * N_ROWS))
    doubled = partition_tasks.gather_share([table, table], 0, **share)
    np.testing.assert_array_equal(doubled[:, :-1], one[:, :-1])
    assert (sampling.as_table(doubled)[:, -1] == 2.0).all()


# what crosses the wire


def wire_bytes(caplog, n_rows):
    """Largest result of a partition in each pass of sums."""
    caplog.clear()
    fit_parts(make_step(atoms=51), pieces(make_frame(n_rows), [1000] * 5))
    return [record.args[3] for record in caplog.records if record.args[1] == "moments"]


def test_bytes_of_a_pass_do_not_grow_with_the_rows(caplog, small_memory):
    caplog.set_level(logging.INFO, logger="evenhand.tables.partitions")
    few, many = wire_bytes(caplog, 5000), wire_bytes(caplog, 40_000)
    assert max(many) <= max(few) + 64  # a pickle's numbers have no fixed length
    assert max(many) < 8 * 51 * (len(GROUPS) + 2) + 1000


def test_passes_are_counted_and_the_certificate_needs_none_of_its_own(caplog, small_memory, monkeypatch):
    caplog.set_level(logging.INFO, logger="evenhand.tables.partitions")
    points, moments = set(), partitions.PartitionedRows.moments

    def spy(self, loadings, offset, *, whole=False):
        if not whole:  # the solver asks, not the certificate
            points.add(loadings.tobytes())
        return moments(self, loadings, offset, whole=whole)

    monkeypatch.setattr(partitions.PartitionedRows, "moments", spy)
    step = fit_parts(make_step(), pieces(FRAME, [1000] * 5))
    kinds = [record.args[1] for record in caplog.records]
    assert step.n_passes_ == len(kinds)
    assert kinds[:2] == ["score", "sample"]
    assert set(kinds[2:]) == {"sample", "moments"}  # a larger one, where the first is too small
    assert kinds.count("moments") == len(points)
    again = step.fit(FRAME["score"], FRAME[GROUPS])
    assert not hasattr(again, "n_passes_")


@pytest.mark.parametrize(("parity", "epsilon"), [("cdf", 0.03), ("tv", 0.05)])
def test_a_sample_that_knows_little_of_the_curvature_still_leads_to_the_optimum(parity, epsilon, monkeypatch):
    """One row in six; plain steps, with a Hessian of these rows, stall for tv."""
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", 50_000)
    monkeypatch.setattr(partitions, "MOST_GATHERED", 0)
    frame = make_frame(60_000)
    expected = make_step(parity=parity, epsilon=epsilon).fit(frame["score"], frame[GROUPS])
    found = fit_parts(make_step(parity=parity, epsilon=epsilon), pieces(frame, [20_000] * 2))
    assert found.result_.status is Status.CONVERGED
    assert found.certificate_.risk == pytest.approx(expected.certificate_.risk, abs=2e-6)
    assert found.certificate_.excess.max() <= 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("parity", "epsilon"), [("cdf", 0.02), ("pmf", 0.002), ("w1", 0.01)])
def test_ten_million_rows_of_three_groups_are_summed_over_six_times_at_most(parity, epsilon, ordered):
    frame = make_frame(10_000_000)
    step = fit_parts(make_step(parity=parity, epsilon=epsilon), pieces(frame, [10**6] * 9), ordered=ordered)
    assert step.n_passes_ - 2 <= 6  # without the scoring and the sample
    assert step.certificate_.excess.max() <= 1e-6


# errors


def bad_frames():
    """A table with one partition that is wrong, and what is said of it."""
    holed, texts = FRAME.copy(), FRAME.astype({"score": object})
    holed.loc[4321, "score"] = np.nan
    texts.loc[4321, "score"] = "many"
    unbalanced = FRAME.copy()
    unbalanced.loc[4321, "a"] += 0.5
    return {
        "NaN": (holed, r"Partition 4, rows 0 to 999: scores must be finite"),
        "text": (texts, r"Partition 4, rows 0 to 999: scores must hold numbers"),
        "sum": (unbalanced, r"Partition 4, rows 0 to 999: group_proba must sum to one"),
    }


@pytest.mark.parametrize("kind", bad_frames())
def test_an_error_is_one_line_that_names_the_partition(kind):
    frame, message = bad_frames()[kind]
    with pytest.raises(PartitionError, match=message) as caught:
        fit_parts(make_step(), pieces(frame, [1000] * 5))
    assert "\n" not in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_a_column_that_one_partition_lacks_is_named():
    chunks = pieces(FRAME, [1000] * 5)
    chunks[2] = chunks[2].drop(columns="b")
    with pytest.raises(PartitionError, match=r"Partition 2, rows 0 to 999: .*'?b'?"):
        fit_parts(make_step(), chunks)


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        fit_parts(make_step(), pieces(FRAME[:0], [0, 0]))


def test_what_is_no_cluster_frame_needs_a_file_to_predict_to():
    step = make_step().fit(FRAME["score"], FRAME[GROUPS])
    with pytest.raises(ValueError, match="pass its path as target"):
        predict_table(step, FRAME, **NAMES)


def test_streams_and_iterators_say_that_cluster_frames_are_not_for_them():
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    for use in (stream_table, iter_predictions):
        with pytest.raises(TypeError, match="fit_table and predict_table alone"):
            list(use(make_step().fit(FRAME["score"], FRAME[GROUPS]), frame, **NAMES))
