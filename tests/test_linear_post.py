"""LinearPost against an independent solution of its program, and against the estimator that smooths it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import evenhand as eh
from evenhand.baselines import LinearPost


@pytest.fixture(scope="module")
def rows():
    return eh.datasets.make_class_population(1500, random_state=0)


def gap(decided, group_proba):
    rates = decided @ group_proba / group_proba.sum(axis=0)
    return float(np.ptp(rates))


def test_without_a_binding_constraint_it_decides_for_the_likeliest_class(rows):
    step = LinearPost(alpha=1.0, noise=0.0).fit(rows.class_proba, rows.group_proba)
    assert np.abs(step.prices_).max() == 0.0
    np.testing.assert_array_equal(
        step.predict(rows.class_proba, rows.group_proba), rows.class_proba.argmax(axis=1)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.15])
def test_its_value_is_that_of_the_dual_found_by_a_search_along_a_line(rows, alpha):
    """Two groups and two classes have one price: the program's dual is a concave function of it alone."""
    noiseless = LinearPost(alpha=alpha, noise=0.0).fit(rows.class_proba, rows.group_proba)
    shares = rows.group_proba / rows.group_proba.mean(axis=0)
    lean = shares[:, 1] - shares[:, 0]
    risks = 1.0 - rows.class_proba

    def minus_dual(price):
        best = np.minimum(risks[:, 0], risks[:, 1] + price * lean)
        return abs(price) * alpha - best.mean()

    found = minimize_scalar(minus_dual, bounds=(-1, 1), method="bounded", options={"xatol": 1e-10})
    assert noiseless.value_ == pytest.approx(-found.fun, abs=1e-7)


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_decisions_keep_alpha_on_the_rows_up_to_the_rows_at_the_border(rows, alpha, aware):
    tau = np.eye(2)[rows.sensitive_features] if aware else rows.group_proba
    step = LinearPost(alpha=alpha, random_state=0).fit(rows.class_proba, tau)
    few = 4 / np.bincount(rows.sensitive_features).min()  # as many basic rows as there are constraints
    assert gap(step.predict(rows.class_proba, tau), tau) <= alpha + few


def test_it_has_the_risk_of_the_exact_parity_step_with_the_same_constraint(rows):
    """For two groups a gap of alpha between them is one of alpha (1 - p_s) to everybody."""
    alpha = 0.06
    prior = rows.group_proba.mean(axis=0)
    cost = 1.0 - np.eye(2)
    step = eh.ParityPostprocessor(
        parity="pmf", epsilon=alpha * (1 - prior), atoms=[0.0, 1.0], cost=cost, solver="lp"
    )
    step.fit(rows.class_proba, rows.group_proba)
    chances = step.predict_pmf(rows.class_proba, rows.group_proba)
    risk = float((chances * (1.0 - rows.class_proba)).sum(axis=1).mean())
    ours = LinearPost(alpha=alpha, noise=0.0).fit(rows.class_proba, rows.group_proba)
    assert ours.value_ == pytest.approx(risk, abs=2e-6)


def test_it_says_what_is_wrong(rows):
    with pytest.raises(ValueError, match="alpha must be"):
        LinearPost(alpha=-1.0).fit(rows.class_proba, rows.group_proba)
    with pytest.raises(ValueError, match="column of group_proba is zero"):
        LinearPost().fit(rows.class_proba, np.column_stack([np.ones(1500), np.zeros(1500)]))
