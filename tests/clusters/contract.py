"""What a cluster must pass: `tests/clusters/test_dask.py` and `test_spark.py` run every one of these.

A cluster is a class with `frame(chunks)`, the same rows in these partitions; `shuffled(frame, n)`; `collect`,
the rows of a lazy frame as pandas; `generations`, how far above a Python worker is what is to be killed; and
`settings`, pairs with which its model is that of `fit` to 1e-8. Rows without an order, as Spark's, take
another way to the optimum (Hessians are taken on other samples): they meet `fit` where both go all the way.
"""

import logging
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from evenhand import ParityClassifier, ParityRegressor
from evenhand.tables import batch, fit_table, iter_predictions, predict_table
from tests.partitioned import GROUPS, NAMES, DeadlyCost, distance, make_frame, make_step, pieces

N_ROWS = 6000
FRAME = make_frame(N_ROWS)
SMOOTH = {"atoms": 21, "beta": 100.0}  # few steps: each is a job on the cluster
SIZES = {"empty and single": [0, 1, 3000, 0, 1, 1000], "even": [1500] * 3}


def names_of_pages():
    """A fitted model, and rows to score in the folder `people`, which the pages take for granted."""
    made = eh.datasets.make_population(600, n_groups=2, random_state=0)
    X = pd.DataFrame(made.data, columns=list("abcd"))
    model = ParityRegressor(confidence=None, random_state=0)
    model.fit(X, made.target, sensitive_features=made.sensitive_features)
    Path("people").mkdir()
    X.assign(id=range(600), region=["north", "south"] * 300).to_parquet("people/1.parquet")
    return {"eh": eh, "model": model}


class ClusterContract:
    """Tests that a module inherits, with a fixture `cluster`."""

    @pytest.fixture
    def small_memory(self, monkeypatch):
        monkeypatch.setattr(batch, "MEMORY_NUMBERS", 10_000)  # 2000 rows of three groups

    # fits

    @pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
    def test_the_model_is_that_of_fit(self, cluster, sizes):
        step = make_step(**dict(cluster.settings))
        expected = clone(step).fit(FRAME["score"], FRAME[GROUPS])
        found = fit_table(step, cluster.frame(pieces(FRAME, sizes)), **NAMES)
        assert distance(found, expected, FRAME) <= 1e-8
        assert found.groups_.tolist() == GROUPS

    def test_the_model_on_workers_is_the_same_for_any_partitioning(self, cluster, small_memory):
        models = [
            fit_table(
                make_step(**SMOOTH), cluster.frame(pieces(FRAME, sizes)), sample_weight="weight", **NAMES
            )
            for sizes in SIZES.values()
        ]
        shuffled = cluster.shuffled(cluster.frame(pieces(FRAME, SIZES["even"])), 5)
        models.append(fit_table(make_step(**SMOOTH), shuffled, sample_weight="weight", **NAMES))
        for model in models[1:]:
            assert distance(model, models[0], FRAME) <= 1e-8
        assert models[0].certificate_.excess.max() <= 1e-6

    def test_the_model_on_workers_is_as_good_as_the_single_machines(self, cluster, small_memory):
        expected = fit_table(make_step(tol=1e-10, **SMOOTH), FRAME, **NAMES)
        found = fit_table(
            make_step(tol=1e-10, **SMOOTH), cluster.frame(pieces(FRAME, SIZES["even"])), **NAMES
        )
        assert abs(found.certificate_.risk - expected.certificate_.risk) <= 1e-8
        assert np.abs(found.certificate_.violation - expected.certificate_.violation).max() <= 1e-8

    def test_bytes_of_a_pass_do_not_grow_with_the_rows(self, cluster, small_memory, caplog):
        caplog.set_level(logging.INFO, logger="evenhand.tables.partitions")
        largest = []
        for n_rows in (5000, 40_000):
            caplog.clear()
            frame = cluster.frame(pieces(make_frame(n_rows), [n_rows // 4] * 3))
            step = fit_table(make_step(**SMOOTH), frame, **NAMES)
            passes = [record.args for record in caplog.records if record.args[1] == "moments"]
            largest.append(max(args[3] for args in passes))
            assert step.n_passes_ >= len(passes) + 2
        assert largest[1] <= largest[0] + 64
        assert largest[1] < 8 * 21 * (len(GROUPS) + 2) + 1000

    # models, and predictions

    def test_an_estimator_scores_partitions_where_they_are(self, cluster):
        frame, known = self.people(), slice(0, 1500)
        model = ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.05, random_state=3)
        features = frame[["x0", "x1", "x2"]]
        model.fit(features[known], frame["y"][known], sensitive_features=frame["group"][known])
        rest = frame[1500:].reset_index(drop=True)
        expected = make_step(epsilon=0.05).fit(*model.predict_scores(rest[["x0", "x1", "x2"]]))
        on_cluster = cluster.frame(pieces(rest, [700, 0, 1]))
        assert fit_table(model, on_cluster) is model
        np.testing.assert_allclose(model.certificate_.risk, expected.certificate_.risk, atol=1e-8)
        drawn = cluster.collect(predict_table(model, on_cluster, ids="id")).sort_values("id")
        np.testing.assert_array_equal(
            drawn["prediction"], model.predict(rest[["x0", "x1", "x2"]], ids=rest["id"])
        )

    def test_predictions_are_lazy_and_carry_ids_and_columns(self, cluster, tmp_path):
        step = make_step().fit(FRAME["score"], FRAME[GROUPS])
        lazy = predict_table(
            step, cluster.frame(pieces(FRAME, SIZES["empty and single"])), ids="who", keep=["note"], **NAMES
        )
        assert type(lazy).__name__ == "DataFrame"
        assert list(lazy.columns) == ["who", "note", "prediction"]
        found = cluster.collect(lazy).sort_values("who")
        expected = step.predict(FRAME["score"], FRAME[GROUPS], ids=FRAME["who"])
        np.testing.assert_array_equal(found["prediction"], expected)
        assert found["note"].tolist() == FRAME["note"].tolist()
        lazy = predict_table(step, cluster.frame([FRAME]), method="predict_mean", keep=["who"], **NAMES)
        means = cluster.collect(lazy).sort_values("who")
        np.testing.assert_array_equal(means["prediction"], step.predict_mean(FRAME["score"], FRAME[GROUPS]))

    def test_distributions_are_lists_and_classes_keep_their_labels(self, cluster):
        step = make_step(atoms=5).fit(FRAME["score"], FRAME[GROUPS])
        lazy = predict_table(
            step, cluster.frame(pieces(FRAME[:50], [20])), method="predict_pmf", keep=["who"], **NAMES
        )
        found = cluster.collect(lazy).sort_values("who")
        np.testing.assert_allclose(
            np.stack(found["prediction"].to_list()), step.predict_pmf(FRAME["score"][:50], FRAME[GROUPS][:50])
        )
        frame = self.people()
        features, decided = frame[["x0", "x1", "x2"]], np.where(frame["y"] > 0, "yes", "no")
        model = ParityClassifier(LogisticRegression(), LogisticRegression(), random_state=0)
        model.fit(features, decided, sensitive_features=frame["group"])
        drawn = cluster.collect(
            predict_table(model, cluster.frame(pieces(frame, [900])), ids="id")
        ).sort_values("id")
        assert drawn["prediction"].tolist() == model.predict(features, ids=frame["id"]).tolist()

    # errors

    def test_an_error_is_one_line_that_names_the_partition(self, cluster):
        holed = FRAME.copy()
        holed.loc[4321, "score"] = np.nan
        frame = cluster.frame(pieces(holed, SIZES["even"]))
        step = make_step().fit(FRAME["score"], FRAME[GROUPS])
        before = dict(vars(step))
        told = "Partition 2, rows 0 to 1499: scores must be finite"
        with pytest.raises(ValueError, match=f"^{told}") as caught:
            fit_table(step, frame, **NAMES)
        assert "\n" not in str(caught.value)
        assert vars(step) == before
        with pytest.raises(Exception, match=told):
            cluster.collect(predict_table(step, frame, **NAMES))

    def test_missing_columns_and_other_types_are_named(self, cluster):
        frame = cluster.frame(pieces(FRAME, SIZES["even"]))
        with pytest.raises(ValueError, match="The table has no column nothing"):
            fit_table(make_step(), frame, scores="nothing", group_proba=GROUPS)
        with pytest.raises(ValueError, match=r"Partition 0, rows 0 to 1499: scores must hold numbers"):
            fit_table(make_step(), frame, scores="note", group_proba=GROUPS)
        single = FRAME.astype({"score": "float32", **dict.fromkeys(GROUPS, "float32")})
        step = make_step(**dict(cluster.settings))
        found = fit_table(clone(step), cluster.frame(pieces(single, SIZES["even"])), **NAMES)
        expected = step.fit(single["score"], single[GROUPS])
        assert distance(found, expected, FRAME) <= 1e-8

    def test_what_a_lazy_frame_cannot_do_is_refused(self, cluster, tmp_path):
        step, frame = make_step().fit(FRAME["score"], FRAME[GROUPS]), cluster.frame([FRAME])
        with pytest.raises(ValueError, match="leave out target"):
            predict_table(step, frame, tmp_path / "out.parquet", **NAMES)
        with pytest.raises(ValueError, match="random_state asks for fresh draws"):
            predict_table(step, frame, random_state=1, **NAMES)
        with pytest.raises(TypeError, match="fit_table and predict_table alone"):
            iter_predictions(step, frame, **NAMES)

    # kills

    def test_a_worker_killed_in_a_fit_and_in_a_scoring_changes_nothing_but_the_time(
        self, cluster, small_memory, tmp_path
    ):
        armed = tmp_path / "armed"
        deadly = DeadlyCost(armed, generations=cluster.generations)
        settings = {**SMOOTH, "cost": deadly}
        frame = cluster.frame(pieces(FRAME, SIZES["even"]))
        expected = fit_table(make_step(**settings), frame, **NAMES)
        usual = cluster.collect(predict_table(expected, frame, ids="who", **NAMES)).sort_values("who")
        before = cluster.workers()
        armed.touch()
        found = fit_table(make_step(**settings), frame, **NAMES)
        assert not armed.exists()
        assert found.multipliers_.tobytes() == expected.multipliers_.tobytes()
        armed.touch()
        drawn = cluster.collect(predict_table(found, frame, ids="who", **NAMES)).sort_values("who")
        assert not armed.exists()
        assert drawn["prediction"].tolist() == usual["prediction"].tolist()
        assert len(before) >= 2
        assert os.getpid() not in before
        assert before - cluster.workers()  # some are gone

    @staticmethod
    def people():
        """Features, an outcome and a group that leans on them."""
        rng = np.random.default_rng(5)
        X = rng.normal(size=(4000, 3))
        group = np.where(X[:, 0] + rng.normal(size=4000) > 0, "m", "f")
        columns = {f"x{place}": column for place, column in enumerate(X.T)}
        outcome = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=4000)
        return pd.DataFrame({"id": np.arange(4000), **columns, "y": outcome, "group": group})
