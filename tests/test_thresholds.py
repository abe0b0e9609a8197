"""Parity of the shares above a few thresholds alone, wherever a notion goes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import evenhand as eh
from evenhand.certificates import certify_held_out, certify_prediction_powered, certify_sequence
from evenhand.dual.parity import find_parity
from evenhand.exceptions import InactiveConstraintWarning
from evenhand.metrics import unfairness
from tests.test_extending import best_risk

CUTS = (-0.1, 0.3)


@pytest.fixture(scope="module")
def people():
    return [eh.datasets.make_population(3000, n_groups=3, random_state=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def new():
    """People enough to see the promise itself, and not chance."""
    return eh.datasets.make_population(30_000, n_groups=3, random_state=2)


@pytest.fixture(scope="module")
def model(people):
    first, _ = people
    model = eh.ParityRegressor(parity=eh.Thresholds(CUTS), epsilon=0.06)
    return model.fit(first.data, first.target, sensitive_features=first.sensitive_features)


def gaps_above(pmf, atoms, groups, cuts=CUTS):
    """The largest difference in a share above a cutoff, from its definition."""
    above = np.array([pmf[:, atoms > cut].sum(axis=1) for cut in cuts])
    return {
        group: np.abs(above[:, groups == group].mean(axis=1) - above.mean(axis=1)).max()
        for group in np.unique(groups).tolist()
    }


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "sgd3"])
def test_it_comes_to_the_risk_of_the_linear_program(solver):
    rows = eh.datasets.make_population(80, n_groups=3, random_state=3)
    settings = {"epsilon": 0.02, "atoms": 9, "bounds": (-1, 1), "beta": 2000.0, "max_iter": 200_000}
    exact = solver != "sgd3"
    step = eh.ParityPostprocessor(
        parity=eh.Thresholds(CUTS),
        solver=solver,
        random_state=0,
        **(settings if exact else {**settings, "beta": 50.0}),
    )
    pmf = step.fit(rows.scores, rows.group_proba).predict_pmf(rows.scores, rows.group_proba)
    costs = (rows.scores[:, None] - step.atoms_) ** 2
    shares = np.array([step.atoms_ > cut for cut in CUTS], dtype=float)
    best = best_risk(costs, rows.group_proba, shares, 0.02)
    weights = rows.group_proba / rows.group_proba.sum(axis=0) - 1.0 / len(pmf)
    violation = np.abs(shares @ pmf.T @ weights).max(axis=0)
    assert_allclose(step.certificate_.violation, violation, atol=1e-9)
    assert violation.max() == pytest.approx(0.02, abs=2e-5 if exact else 0.02)
    if exact:
        assert (pmf * costs).sum(axis=1).mean() == pytest.approx(best, rel=5e-3)
    step.set_params(solver="lp").fit(rows.scores, rows.group_proba)
    unit = step.policy_.cost.unit(step.policy_.grid)
    assert unit * step.result_.exact_risk == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.1])
def test_it_costs_less_than_the_whole_distribution(people, epsilon):
    first, _ = people
    risks = [
        eh.ParityPostprocessor(parity=parity, epsilon=epsilon)
        .fit(first.scores, first.group_proba)
        .certificate_.risk
        for parity in (eh.Thresholds([0.1]), eh.Thresholds(CUTS), "cdf")
    ]
    assert risks[0] < risks[1] < 0.6 * risks[2]


def test_new_people_of_the_true_groups_are_within_epsilon(model, new):
    pmf = model.predict_pmf(new.data)
    by_hand = gaps_above(pmf, model.atoms_, new.sensitive_features)
    found = unfairness(pmf, new.sensitive_features, model.atoms_, metric=eh.Thresholds(CUTS))
    assert found == pytest.approx(by_hand)
    assert max(found.values()) < 0.06
    drawn = model.predict(new.data)
    shares = pd.DataFrame({"group": new.sensitive_features, "above": drawn > CUTS[0]})
    assert shares.groupby("group").above.mean().sub(shares.above.mean()).abs().max() < 0.08
    ks = unfairness(pmf, new.sensitive_features, model.atoms_)
    assert max(ks.values()) > 0.1  # of other thresholds nothing is asked


def test_quantiles_become_numbers_at_fit_and_stay(people):
    first, new = people
    scores, proba = first.scores, first.group_proba
    step = eh.ParityPostprocessor(parity=eh.Thresholds(quantiles=[0.25, 0.5]), epsilon=0.02).fit(
        scores, proba
    )
    wanted = np.quantile(scores, [0.25, 0.5], method="inverted_cdf")
    assert_allclose(step.parity_.cutoffs, wanted)
    plain = eh.ParityPostprocessor(parity=eh.Thresholds(wanted), epsilon=0.02).fit(scores, proba)
    assert np.array_equal(plain.predict_pmf(scores, proba), step.predict_pmf(scores, proba))
    assert step.parity.quantile_values is None  # parameters stay as they were given
    weights = np.where(scores > 0, 2.0, 1.0)
    weighted = eh.ParityPostprocessor(parity="thresholds").fit(scores, proba, sample_weight=weights)
    (median,) = weighted.parity_.cutoffs
    assert weights[scores <= median].sum() / weights.sum() == pytest.approx(0.5, abs=0.001)
    step.partial_fit(new.scores, new.group_proba)  # the stream goes on with the numbers of the fit
    assert_allclose(step.parity_.cutoffs, wanted)


@pytest.mark.parametrize(
    ("text", "notion"),
    [
        ("ks", find_parity("cdf")),
        ("thresholds", eh.Thresholds(quantiles=0.5)),
        ("thresholds:-0.1, .3", eh.Thresholds([0.3, -0.1])),
        ("thresholds:50%,2e4,90%", eh.Thresholds(2e4, [0.9, 0.5])),
    ],
)
def test_a_name_with_numbers_stands_for_the_notion(text, notion):
    assert find_parity(text) == notion


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: eh.Thresholds([np.nan]), "finite numbers"),
        (lambda: eh.Thresholds("abc"), "thresholds"),
        (lambda: eh.Thresholds(quantiles=[1.5]), "strictly between 0 and 1"),
        (lambda: find_parity("thresholds:12;13"), "commas between"),
        (lambda: find_parity("cdf:0.3"), "takes no numbers"),
        (lambda: find_parity("threshold"), "Valid names: .*thresholds"),
        (lambda: eh.Thresholds(quantiles=0.5).cutoffs, "found by fit"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_classes_have_no_quantiles_but_thresholds_between_them():
    data = eh.datasets.make_class_population(800, random_state=0)
    model = eh.ParityClassifier(parity="thresholds", confidence=None)
    with pytest.raises(ValueError, match="Classes have no quantiles"):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    model.set_params(parity=eh.Thresholds([0.5]), epsilon=0.03)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert model.certificate_.violation.max() <= 0.03 + 1e-5


def test_thresholds_beyond_all_predictions_constrain_nothing_and_warn(people):
    first, _ = people
    step = eh.ParityPostprocessor(parity=eh.Thresholds([100.0]))
    with pytest.warns(InactiveConstraintWarning, match="share above 100 is the same.*constrains nothing"):
        step.fit(first.scores, first.group_proba)
    assert np.abs(step.multipliers_).max() == 0.0


def test_thresholds_that_tell_nothing_apart_change_nothing(people):
    first, _ = people
    pmfs = [
        eh.ParityPostprocessor(parity=eh.Thresholds(cuts), epsilon=0.02, atoms=21)
        .fit(first.scores, first.group_proba)
        .predict_pmf(first.scores, first.group_proba)
        for cuts in (CUTS, (-50.0, *CUTS, CUTS[1] + 1e-9, 100.0))
    ]
    assert np.array_equal(*pmfs)


def test_held_out_rows_bound_it_more_sharply_than_ks(model, new):
    rows = {"X": new.data, "sensitive_features": new.sensitive_features, "epsilon": 0.1}
    found = certify_held_out(model, metric="thresholds", **rows)
    assert_allclose(
        found.estimate,
        list(gaps_above(model.predict_pmf(new.data), model.atoms_, new.sensitive_features).values()),
    )
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert found.holds
    assert "in the share above a threshold from everybody" in str(found)
    assert (found.upper < certify_held_out(model, metric="ks", **rows).upper).all()
    drawn = certify_held_out(
        model.predict(new.data), new.sensitive_features, metric=eh.Thresholds(CUTS), epsilon=0.2
    )
    assert drawn.holds
    sequence = certify_sequence(
        [model.predict_pmf(new.data)],
        new.sensitive_features,
        epsilon=0.1,
        atoms=model.atoms_,
        metric=eh.Thresholds(CUTS),
    )
    assert sequence.chosen == 0
    with pytest.raises(ValueError, match="name the thresholds"):
        certify_held_out(model.predict(new.data), new.sensitive_features, metric=eh.Thresholds())


def test_unlabelled_rows_make_the_bound_sharper(model, people):
    first, new = people
    settings = {"metric": eh.Thresholds(CUTS), "atoms": model.atoms_}
    pmf = model.predict_pmf(new.data)
    plain = certify_held_out(pmf, new.sensitive_features, side="upper", **settings)
    powered = certify_prediction_powered(
        pmf,
        new.sensitive_features,
        new.group_proba,
        pmf_unlabeled=model.predict_pmf(first.data),
        group_proba_unlabeled=first.group_proba,
        **settings,
    )
    assert powered.metric == "thresholds"
    assert powered.upper.sum() < plain.upper.sum()
    assert_allclose(powered.estimate, plain.estimate)


def test_bounds_hold_as_often_as_they_say():
    """Of samples from a population whose gap is known, the bounds miss it no more often than delta."""
    rng = np.random.default_rng(0)
    missed = np.zeros(2)
    shares = np.array([[0.3, 0.5], [0.36, 0.6]])  # above the two thresholds, in each group of the same size
    truth = np.abs(shares[0] - shares.mean(axis=0)).max()
    for _ in range(300):
        groups, uniforms = rng.integers(2, size=400), rng.random(400)
        values = (uniforms[:, None] < shares[groups]).sum(axis=1)
        found = certify_held_out(values, groups, metric=eh.Thresholds([0.5, 1.5]), delta=0.2)
        missed += [(found.lower > truth).any(), (found.upper < truth).any()]
    assert missed.sum() <= 300 * 0.2


def test_rows_set_aside_prove_it(people):
    first, new = people
    model = eh.ParityRegressor(parity=eh.Thresholds(CUTS), epsilon=0.1, confidence=0.9).fit(
        first.data,
        first.target,
        sensitive_features=first.sensitive_features,
        calibration_data=(new.data, new.sensitive_features),
    )
    estimate = model.certificate_.out_of_sample
    assert estimate.proved
    assert (estimate.bound <= 0.1).all()


def test_audits_frontiers_reports_and_cards_measure_it(model, people, tmp_path):
    first, new = people
    pmf = model.predict_pmf(new.data)
    by_hand = gaps_above(pmf, model.atoms_, new.sensitive_features)
    found = eh.audit(
        pmf,
        new.sensitive_features,
        atoms=model.atoms_,
        baseline=model.predict_scores(new.data)[0],
        parity=model.parity,
    )
    assert_allclose(found.measures["thresholds"].estimate, list(by_hand.values()))
    assert found.baseline["thresholds"].max() > 0.1
    assert "Gap in the share above a threshold for group" in found.sentences("thresholds")[0]
    assert "thresholds" not in eh.audit(pmf, new.sensitive_features, atoms=model.atoms_).measures
    held_out = {"X": new.data, "y": new.target, "sensitive_features": new.sensitive_features}
    path = eh.frontier(
        model,
        first.data,
        first.target,
        sensitive_features=first.sensitive_features,
        epsilons=[0.02, 0.1],
        test=held_out,
    )
    table = path.frame()
    assert table["max_thresholds"].is_monotonic_increasing
    assert table["max_thresholds"].max() < path.base.largest(eh.Thresholds(CUTS))
    page = eh.report(model, **held_out, path=tmp_path / "report.html").read_text()
    card = eh.model_card(model, **held_out, path=tmp_path / "card.md").read_text()
    for text in (page, card):
        assert "above -0.1 and 0.3 may differ between a group and everybody by at most" in text
    shown = eh.metrics.unfairness_interval(pmf, new.sensitive_features, model.atoms_, metric="thresholds")
    assert (shown.low <= shown.estimate).all()


def test_it_is_cloned_searched_and_saved(model, people, tmp_path):
    first, new = people
    assert clone(model).parity == model.parity
    search = GridSearchCV(
        eh.ParityPostprocessor(confidence=None),
        {"parity": [eh.Thresholds(CUTS), eh.Thresholds(quantiles=0.5)]},
        scoring=lambda step, X, y=None: -step.certificate_.risk, cv=2, error_score="raise",
    )  # fmt: skip
    search.fit(first.scores, first.group_proba)
    assert search.best_params_["parity"] == eh.Thresholds(quantiles=0.5)
    eh.save(search.best_estimator_, tmp_path / "step.evenhand")
    again = eh.load(tmp_path / "step.evenhand")
    assert_allclose(again.parity_.cutoffs, search.best_estimator_.parity_.cutoffs)
    eh.save(model, tmp_path / "model.evenhand")
    again = eh.load(tmp_path / "model.evenhand")
    assert again.parity == model.parity
    assert np.array_equal(again.predict(new.data), model.predict(new.data))


def test_the_command_line_goes_all_the_way(run, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, _ = people
    table = pd.DataFrame(first.data, columns=first.feature_names)
    table.assign(wage=first.target, group=np.array(["A", "B", "C"])[first.sensitive_features]).to_csv(
        "people.csv", index=False
    )
    data = ("people.csv", "-y", "wage", "-s", "group")
    fitted = run(
        "fit", *data, "--parity", "thresholds:-0.1,50%", "--epsilon", "0.06", "-o", "m.evenhand", "--json"
    )
    assert fitted.code == 0, fitted.err
    audited = run("audit", *data, "--model", "m.evenhand", "--json")
    assert audited.code == 0
    assert audited.facts["metric"] == "thresholds"
    found = {
        row["group"]: row["estimate"] for row in audited.facts["measures"] if row["measure"] == "thresholds"
    }
    model = eh.load("m.evenhand")
    pmf = model.predict_pmf(table)
    by_hand = gaps_above(pmf, model.atoms_, first.sensitive_features, model.parity_.cutoffs)
    assert_allclose(list(found.values()), list(by_hand.values()))
    told = run(
        "frontier", *data, "--parity", "thresholds:-0.1", "--epsilon", "0.05", "--epsilon", "0.2", "--json"
    )
    assert "max_thresholds" in told.facts["base"]
    assert run("report", "m.evenhand", *data, "-o", "page.html").code == 0
    assert "thresholds" in run("info", "m.evenhand").out
    wrong = run("fit", *data, "--parity", "thresholds:high", "-o", "n.evenhand")
    assert wrong.code == 2
    assert "commas between" in wrong.err
