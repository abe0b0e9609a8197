"""Odd labels and tables: columns of any names, long words, and shapes that are none."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor, frontier, metrics
from evenhand.exceptions import ClippingWarning
from fuzz.judge import is_ours
from tests.problems import random_rows

N = 40
SCORES, PROBA = random_rows(N, 2, seed=3)
GROUPS = np.array(["a", "b"])[(PROBA[:, 1] > 0.5).astype(int)]
OUTCOMES = np.random.default_rng(0).normal(size=N)
WEIGHTS = np.random.default_rng(1).exponential(size=N)


def test_columns_of_numbers_for_names_are_columns_of_labels():
    frame = pd.DataFrame({0: GROUPS, 1: np.arange(N) % 2})
    expected = metrics.ks_unfairness(
        SCORES, list(zip(GROUPS.tolist(), (np.arange(N) % 2).tolist(), strict=True))
    )
    assert metrics.ks_unfairness(SCORES, frame) == expected


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame(np.column_stack([GROUPS, GROUPS]), columns=["sex", "sex"])
    with pytest.raises(
        ValueError, match=r"(?s)sensitive_features cannot be read as columns of labels.*'sex' 2 times"
    ):
        metrics.ks_unfairness(SCORES, frame)


def test_a_model_of_two_attributes_can_be_measured_by_the_labels_that_it_was_fitted_with():
    X = np.column_stack([SCORES, OUTCOMES])
    two = np.column_stack([GROUPS, np.where(OUTCOMES > 0, "old", "young")])
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=5, cv=2, min_group_size=1)
    pmf = model.fit(X, OUTCOMES, sensitive_features=two).predict_pmf(X)
    named = {tuple(label) for label in model.groups_.tolist()}
    for measure in (metrics.ks_unfairness, metrics.unfairness):
        assert set(measure(pmf, two, model.atoms_ if hasattr(model, "atoms_") else None)) == named
    assert -1.0 <= metrics.parity_score(OUTCOMES, model.predict(X), sensitive_features=two) <= 0.0
    gaps = metrics.decision_gaps(np.where(OUTCOMES > 0, "yes", "no"), two)
    assert set(gaps) == named


def test_one_long_label_takes_no_memory_in_the_other_rows():
    y = ["no", "yes"] * (N // 2)
    y[0] = "n" * 100_000
    y[2] = y[0]
    X = np.column_stack([SCORES, OUTCOMES])
    model = ParityClassifier(LogisticRegression(), LogisticRegression(), cv=2, min_group_size=2)
    model.fit(X, y, sensitive_features=GROUPS)
    assert model.classes_.dtype == object
    assert set(model.predict(X)) <= set(y)
    assert 0.0 <= model.score(X, y) <= 1.0


def test_a_file_with_one_long_label_takes_no_fixed_width_in_every_row(run, tmp_path):
    """400 rows of 200 000 signs at four bytes each would be 320 MB."""
    long, rng = "n" * 200_000, np.random.default_rng(0)
    rows = [
        f"{rng.normal():.4f},{'fm'[place % 2]},{long if place < 3 else 'yes' if rng.random() < 0.5 else 'no'}"
        for place in range(400)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["x,sex,hired", *rows]) + "\n")
    tracemalloc.start()
    try:
        outcome = run(
            "fit",
            path,
            "--target",
            "hired",
            "--sensitive",
            "sex",
            "-o",
            tmp_path / "model",
            "--holdout",
            "0",
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.code == 0, outcome.err
    assert peak < 150e6


def test_tables_and_outcomes_of_odd_shapes_are_refused_in_our_own_words():
    model = ParityClassifier(LogisticRegression(), LogisticRegression(), cv=2, min_group_size=2)
    X, y = np.column_stack([SCORES, OUTCOMES]), (OUTCOMES > 0).astype(int)
    for arguments, words in (
        ((memoryview(X), y), "got a memoryview"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "X cannot be read as a table"),
        ((X, [[0], [0, 1]]), "y cannot be read as one label"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            model.fit(*arguments, sensitive_features=GROUPS)
        assert is_ours(caught.value)
    with pytest.raises(ValueError, match="random_state must be None"):
        ParityPostprocessor(atoms=5, random_state=np.timedelta64(3, "s")).fit(SCORES, PROBA)


def test_a_frontier_over_a_far_outlier_has_finite_risks():
    scores, proba = np.append(SCORES, 1e200), np.vstack([PROBA, [0.5, 0.5]])
    with pytest.warns(ClippingWarning):
        found = frontier(ParityPostprocessor(atoms=7), scores, proba, epsilons=[0.3, 0.1])
    assert np.isfinite(found.risk).all()


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_weights_of_an_estimator_of_any_size_leave_no_warning(size):
    X = np.column_stack([SCORES, OUTCOMES])
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=5, cv=2, min_group_size=2)
    model.fit(X, OUTCOMES, sensitive_features=GROUPS, sample_weight=WEIGHTS * size)
    scaled = clone(model).fit(X, OUTCOMES, sensitive_features=GROUPS, sample_weight=WEIGHTS / WEIGHTS.max())
    np.testing.assert_allclose(model.predict_pmf(X), scaled.predict_pmf(X), atol=1e-6)
