"""All ways to fit report the same: the certificate and the price are those of `predict_pmf` on the rows.

The reference is computed here from probabilities alone, without the library's operators, costs or sums.
"""

import numpy as np
import pytest

import evenhand as eh
from evenhand.dual.floors import RateFloor
from evenhand.tables import batch

N_ROWS = 4096  # two whole blocks of a stream
ERRORS = 1.0 - np.eye(2)


def rows_of(case, n_rows=N_ROWS, seed=0):
    """Scores, group probabilities and strata of a case."""
    rng = np.random.default_rng(seed)
    tau = rng.beta(2.0, 3.0, n_rows)
    eta = rng.normal(1.2 * tau - 0.6, 0.5)
    proba = np.column_stack([tau, 1.0 - tau])
    if case == "strata":
        inside = rng.random(n_rows) < 0.4
        return eta, np.hstack([proba * inside[:, None], proba * ~inside[:, None]]), ["a", "a", "b", "b"]
    if case in ("classes", "min_rate"):
        chance = 1.0 / (1.0 + np.exp(-2.0 * eta + 1.0))
        return np.column_stack([1.0 - chance, chance]), proba, None
    return eta, proba, None


def step_for(case, **settings):
    if case in ("classes", "min_rate"):
        settings = {"parity": "pmf", "cost": ERRORS, **settings}
    if case == "min_rate":
        settings["cost"] = RateFloor(ERRORS, (1,), 0.45)
    return eh.ParityPostprocessor(epsilon=0.02, **settings)


def reference(model, scores, proba, strata):
    """Violation of each group, expected cost and share of each atom, from the probabilities of the atoms."""
    pmf, atoms = model.predict_pmf(scores, proba), model.atoms_
    total = np.ones_like(proba)
    if strata is not None:
        same = np.equal.outer(strata, strata).astype(float)
        total = proba @ same
    imbalance = total / total.mean(axis=0) - proba / proba.mean(axis=0)
    gaps = imbalance.T @ pmf / len(pmf)
    if scores.ndim == 1:
        violation = np.abs(np.cumsum(gaps, axis=1)).max(axis=1)
        cost = (pmf * (scores[:, None] - atoms) ** 2).sum(axis=1).mean()
    else:
        violation = np.abs(gaps).max(axis=1)
        cost = (pmf * (scores @ ERRORS)).sum(axis=1).mean()
    return violation, cost, pmf.mean(axis=0)


def require_same(model, scores, proba, strata, tolerance=1e-9, of_price=1e-9):
    violation, cost, shares = reference(model, scores, proba, strata)
    certificate, price = model.certificate_, model.price_
    np.testing.assert_allclose(certificate.violation, violation, atol=max(tolerance, 1e-9))
    assert certificate.risk == pytest.approx(cost, rel=tolerance, abs=tolerance)
    # where parity or the floor is missed, as new rows of a stream can, the risk may be below that of the best
    kept = (violation <= model.tolerance_ + 1e-9).all()
    if kept and (not isinstance(model.cost, RateFloor) or shares[1] >= model.cost.least):
        assert certificate.lower_bound <= certificate.risk + 1e-9
    assert price.risk == pytest.approx(cost, rel=of_price, abs=of_price)
    np.testing.assert_allclose(price.shares_after, shares, atol=of_price)


CASES = pytest.mark.parametrize("case", ["plain", "min_rate", "strata", "classes"])


def table_of(scores, proba):
    return ((scores[i : i + 1000], proba[i : i + 1000]) for i in range(0, len(scores), 1000))


@CASES
def test_fit_reports_what_predict_pmf_gives(case):
    scores, proba, strata = rows_of(case)
    require_same(step_for(case).fit(scores, proba, strata=strata), scores, proba, strata)


@CASES
def test_fit_table_in_memory_reports_the_same_as_fit(case):
    scores, proba, strata = rows_of(case)
    model = eh.tables.fit_table(step_for(case), table_of(scores, proba), strata=strata)
    require_same(model, scores, proba, strata)
    again = step_for(case).fit(scores, proba, strata=strata)
    np.testing.assert_array_equal(model.multipliers_, again.multipliers_)
    assert model.certificate_.risk == again.certificate_.risk


@CASES
def test_fit_table_beyond_memory_reports_what_predict_pmf_gives(case, monkeypatch):
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", 8_000)
    scores, proba, strata = rows_of(case)
    model = eh.tables.fit_table(step_for(case), table_of(scores, proba), strata=strata)
    # the price is that of a sample of some 1,600 rows: a mean of it is off by 1 / sqrt(1,600) at most
    require_same(model, scores, proba, strata, of_price=5 * 0.5 / np.sqrt(1_600))


@CASES
def test_a_stream_after_a_fit_reports_the_policy_that_it_has_led_to(case):
    scores, proba, strata = rows_of(case)
    model = step_for(case).fit(scores, proba, strata=strata)
    before = model.price_
    fresh, fresh_proba, _ = rows_of(case, seed=1)
    model.partial_fit(fresh, fresh_proba)
    assert model.price_ is not before
    both = np.concatenate([scores, fresh]), np.concatenate([proba, fresh_proba])
    # rows of earlier policies are carried along by sums: off by what two samples of 4,096 rows differ by
    noise = 5 * 0.5 / np.sqrt(N_ROWS)
    require_same(model, *both, strata, tolerance=noise, of_price=noise)
    _, cost, _ = reference(model, *both, strata)
    assert model.certificate_.risk == pytest.approx(cost, rel=0.05)
    assert model.price_.risk == pytest.approx(cost, rel=0.1)


@pytest.mark.parametrize("case", ["plain", "strata", "classes"])
def test_a_stream_of_one_block_reports_what_predict_pmf_gives(case):
    scores, proba, strata = rows_of(case, n_rows=2048)
    model = step_for(case).partial_fit(scores, proba, strata=strata)
    require_same(model, scores, proba, strata, tolerance=1e-5, of_price=1e-5)  # rows are rounded to 2^-24


@CASES
def test_every_point_of_a_frontier_reports_what_predict_pmf_gives(case):
    scores, proba, strata = rows_of(case)
    found = eh.frontier(step_for(case), scores, proba, strata=strata, epsilons=[0.0, 0.02, 0.1])
    for point in found.points:
        assert point.model.certificate_.risk == point.certificate.risk
        require_same(point.model, scores, proba, strata)


@pytest.fixture(scope="module")
def people():
    return eh.datasets.make_population(3000, n_groups=2, separation=2.0, random_state=0)


@pytest.mark.parametrize("min_rate", [None, 0.4])
def test_estimators_report_what_predict_pmf_gives_on_the_rows_of_the_step(people, min_rate):
    hired = people.target > 0.5
    model = eh.ParityClassifier(epsilon=0.02, confidence=None, min_rate=min_rate)
    model.fit(people.data, hired, sensitive_features=people.sensitive_features, X_unlabeled=people.data)
    require_same(model_of_rows(model), *model.predict_scores(people.data), None)
    before = model.step_
    eh.tables.fit_table(model, people.data[:2000])
    assert model.step_ is not before
    require_same(model_of_rows(model), *model.predict_scores(people.data[:2000]), None)
    path = eh.frontier(
        eh.ParityClassifier(min_rate=min_rate),
        people.data,
        hired,
        sensitive_features=people.sensitive_features,
        X_unlabeled=people.data,
        epsilons=[0.02, 0.1],
    )
    for each in path.models:
        require_same(model_of_rows(each), *each.predict_scores(people.data), None)


def model_of_rows(model):
    """The parity step of an estimator, whose attributes are those of the estimator."""
    step = model.postprocessor_
    assert step.certificate_ is model.certificate_
    assert step.price_ is model.price_
    return step


def test_the_price_and_the_text_of_a_model_are_those_of_its_last_rows(people):
    hired = np.where(people.target > 0.2, "yes", "no")
    model = eh.ParityClassifier(epsilon=0.02).fit(
        people.data, hired, sensitive_features=people.sensitive_features
    )
    first, text = model.price_, str(model)
    poorer = people.data[people.target < 0.4]
    model.partial_fit(np.tile(poorer, (4, 1))[:4096])
    assert model.price_ is not first
    assert abs(model.price_.shares_before[1] - first.shares_before[1]) > 0.05
    assert str(model) != text
