"""What is asked for is what new people of the true groups get, or a warning says what they get."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor
from evenhand.certificates import certify_held_out
from evenhand.datasets import make_population
from evenhand.estimators import chance, judgement, judging
from evenhand.estimators.judged_rows import MOST_JUDGED
from evenhand.estimators.share_search import LEAST_SHARE, ShareSearch
from evenhand.exceptions import PromiseWarning
from evenhand.metrics import decision_gaps, ks_unfairness, unfairness

FRESH = make_population(60_000, n_groups=2, random_state=99)


def population(n_rows, seed=0):
    return make_population(n_rows, n_groups=2, random_state=seed)


def fit(data, model=None, **settings):
    model = ParityRegressor(LinearRegression(), LogisticRegression()) if model is None else model
    model.set_params(**settings)
    return model.fit(data.data, data.target, sensitive_features=data.sensitive_features)


def prove(model, rows, aside):
    groups = {"sensitive_features": rows.sensitive_features}
    groups["sensitive_features_calibration"] = aside.sensitive_features
    return model.fit(rows.data, rows.target, X_calibration=aside.data, **groups)


def fresh_distance(model, **options):
    """Largest distance of a true group on rows of known probabilities, which have no noise of labels."""
    pmf = model.predict_pmf(FRESH.data)
    return max(unfairness(pmf, FRESH.group_proba, **options).values())


@pytest.fixture(scope="module")
def data():
    return population(3000)


@pytest.fixture(scope="module")
def fitted(data):
    return fit(data)


# ---- what new people get ----


def test_on_average_new_people_get_what_was_asked_for():
    asked, before, now = 0.05, [], []
    for seed in range(8):
        rows = population(1500, seed)
        now.append(fresh_distance(fit(rows, epsilon=asked)))
        before.append(fresh_distance(fit(rows, epsilon=asked, confidence=None)))
    assert np.mean(now) <= 1.05 * asked
    assert np.mean(now) > 0.6 * asked  # and nothing is given away
    assert np.mean(before) > 1.05 * asked


@pytest.mark.slow
def test_boosted_trees_keep_their_word():
    now, before = [], []
    for seed in (1, 2):
        rows = population(3000, seed)
        trees = {"max_iter": 30, "random_state": 0}
        models = HistGradientBoostingRegressor(**trees), HistGradientBoostingClassifier(**trees)
        now.append(fresh_distance(fit(rows, ParityRegressor(*models))))
        before.append(fresh_distance(fit(rows, ParityRegressor(*models, confidence=None))))
    assert np.mean(now) <= 1.05 * 0.05
    assert np.mean(before) > 1.1 * 0.05


def test_more_confidence_asks_for_more(data, fitted):
    tolerances = [fit(data, confidence=level).postprocessor_.tolerance_[0] for level in (0.6, 0.9, 0.99)]
    assert tolerances == sorted(tolerances, reverse=True)
    sure = fit(data, confidence=0.9)
    promise = sure.certificate_.promise
    assert promise.kept
    assert (promise.bound <= promise.epsilon).all()
    assert (promise.expected < promise.bound).all()
    assert fitted.postprocessor_.tolerance_[0] > sure.postprocessor_.tolerance_[0]
    assert fresh_distance(sure) < 0.05


@pytest.mark.parametrize(("parity", "epsilon"), [("pmf", 0.02), ("mean", 0.1), ("tv", 0.1), ("w1", 0.1)])
def test_every_notion_has_its_promise(data, parity, epsilon):
    model = fit(data, parity=parity, epsilon=epsilon, atoms=21)
    promise = model.certificate_.promise
    assert (model.postprocessor_.tolerance_ < epsilon).all()
    metric = eh.dual.parity.find_parity(parity).metric
    found = fresh_distance(model, metric=metric, atoms=model.atoms_)
    if promise.kept:
        assert found <= 1.2 * epsilon
    # what is expected is of the size of what fresh rows show, or larger by what chance hides
    expected, chance = promise.expected.max(), promise.chance.max()
    assert min(0.5 * expected, expected - chance) <= found <= 1.5 * expected


@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds", "equal_opportunity"])
def test_classifiers_promise_within_their_strata(criterion):
    rows = population(4000, 1)
    chosen = (rows.target > 0.1).astype(int)
    model = ParityClassifier(criterion=criterion, epsilon=0.05)
    model.fit(rows.data, chosen, sensitive_features=rows.sensitive_features)
    promise = model.certificate_.promise
    assert promise.groups == tuple(model.groups_.tolist())
    fresh_class = (FRESH.target > 0.1).astype(int)
    given = {} if criterion == "demographic_parity" else {"given": fresh_class}
    gaps = decision_gaps(model.predict_proba(FRESH.data), FRESH.sensitive_features, **given)
    wanted = [label for label in gaps if criterion != "equal_opportunity" or label[0] == 1]
    assert promise.kept
    assert max(gaps[label] for label in wanted) < 0.05 + 0.02  # and the noise of 60 000 labels


def test_the_step_learns_from_a_pile_and_is_judged_on_labelled_rows():
    rows, pile = population(2000, 3), population(20_000, 4)
    model = ParityRegressor(LinearRegression(), LogisticRegression())
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features, X_unlabeled=pile.data)
    assert model.postprocessor_.n_rows_ == 20_000
    assert model.certificate_.promise.n_rows == 2000
    assert fresh_distance(model) <= 1.15 * 0.05


# ---- how it is measured ----


def test_the_measure_is_that_of_policies_that_have_not_seen_the_row():
    """The same by public means: a post-processor for each fold, and the distance on what it had not seen."""
    rows = population(1200, 5)
    step = ParityPostprocessor(epsilon=0.05, atoms=31)
    step.fit(rows.scores, rows.group_proba, sensitive_features=rows.sensitive_features)
    known = np.eye(2)[rows.sensitive_features]
    plain = eh._utils.validation.check_rows(rows.scores, rows.group_proba)
    pmf = np.empty((1200, 31))
    for fold in judging.fold_known_rows(plain, known, seed=0):
        rest = np.setdiff1d(np.arange(1200), fold.held_out)
        alone = ParityPostprocessor(
            epsilon=step.tolerance_, atoms=step.atoms_, bounds=step.bounds_, beta=step.beta_
        ).fit(rows.scores[rest], rows.group_proba[rest])
        pmf[fold.held_out] = alone.predict_pmf(rows.scores[fold.held_out], rows.group_proba[fold.held_out])
    by_hand = ks_unfairness(pmf, rows.sensitive_features)
    # fits that are only measured are as precise as that takes
    np.testing.assert_allclose(step.certificate_.promise.measured, list(by_hand.values()), atol=2e-3)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_chance_is_that_of_a_brownian_bridge(share):
    """Values without ties: n_s (1 - p_s)^-1 times the squared distance has the mean pi^2 / 12."""
    rng = np.random.default_rng(0)
    n_rows = 4000
    groups = (np.arange(n_rows) < share * n_rows).astype(int)
    atoms = np.linspace(0, 1, 101)
    pmf = np.zeros((n_rows, 101))
    pmf[np.arange(n_rows), rng.integers(101, size=n_rows)] = 1.0
    step = ParityPostprocessor(atoms=atoms).fit(rng.random(n_rows), np.full((n_rows, 2), 0.5)).step_
    members = eh.metrics.membership.Membership((0, 1), groups)
    wanted = np.sqrt(np.pi**2 / 12 * np.array([share, 1 - share]) / (n_rows * np.array([1 - share, share])))
    np.testing.assert_allclose(chance.chance_shown(step, pmf, members), wanted, rtol=0.1)


def test_what_fits_differ_by_is_scaled_as_the_jackknife_scales_it():
    rng = np.random.default_rng(0)
    of_fits = rng.normal(size=(5, 1, 3))
    drawn = chance.draw_jackknife(of_fits)
    variance = 4 / 5 * ((of_fits - of_fits.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose((drawn**2).mean(axis=0), variance, rtol=0.5)


def test_a_sum_over_atoms_is_judged_by_what_new_people_see():
    """Chance adds up over a hundred atoms: taken for overfitting, it was nearly twice what new people saw."""
    foreseen, seen = [], []
    for seed in range(4):
        model = fit(population(3000, seed), parity="tv", epsilon=0.1, atoms=101)
        promise = model.certificate_.promise
        assert promise.kept
        foreseen.append(promise.expected.max())
        seen.append(fresh_distance(model, metric="tv", atoms=model.atoms_))
    assert np.mean(seen) <= 1.05 * 0.1
    assert np.mean(seen) > 0.75 * np.mean(foreseen)


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.0])
def test_a_sum_over_atoms_takes_models_that_are_wrong_for_wrong(kept):
    """Group probabilities on the way to the prior leave gaps that the rows of the fit do not show."""
    rows = make_population(3000, n_groups=2, separation=2.0, random_state=0)
    fresh = make_population(60_000, n_groups=2, separation=2.0, random_state=99)

    def bend(proba):
        return kept * proba + (1.0 - kept) * proba.mean(axis=0)

    step = ParityPostprocessor(parity="tv", epsilon=0.05, atoms=101)
    with pytest.warns(PromiseWarning):
        step.fit(rows.scores, bend(rows.group_proba), sensitive_features=rows.sensitive_features)
    pmf = step.predict_pmf(fresh.scores, bend(fresh.group_proba))
    seen = max(unfairness(pmf, fresh.group_proba, metric="tv", atoms=step.atoms_).values())
    assert seen > 0.05
    assert step.certificate_.promise.expected.max() == pytest.approx(seen, rel=0.2)


def test_what_models_get_wrong_is_a_mean_over_the_tolerances_that_were_tried(data, monkeypatch):
    seen = []
    judge = judging.judge
    monkeypatch.setattr(judging, "judge", lambda *given, **more: seen.append(given) or judge(*given, **more))
    fit(data, parity="tv", epsilon=0.1, atoms=51)
    assert len(seen) > 1
    assert [len(shown.excesses) for _, shown, _ in seen] == list(range(1, len(seen) + 1))
    step, shown, share = seen[-1]
    alone, low, high = (
        judge(step, replace(shown, excesses=each), share, n_apart=1).expected
        for each in (shown.excesses[-1:], (*shown.excesses, np.full(2, -1.0)), (np.full(2, 0.1),))
    )
    assert (low <= alone).all()
    assert (alone < high).all()


@pytest.mark.parametrize(("n_atoms", "wanted"), [(1, 1.0), (2, 1.0), (30, 0.65), (100, 0.47)])
def test_chance_hides_less_the_more_gaps_it_is_the_sum_of(n_atoms, wanted):
    """The size of a sum of normal gaps varies by sqrt(pi / 2 - 1) / sqrt(n) of itself."""
    sums = np.abs(np.random.default_rng(0).standard_normal((4000, 1, n_atoms))).sum(axis=-1)
    share = judgement.hidden_by_chance(sums) / chance.root_mean_square(sums)
    assert share[0] == pytest.approx(wanted, abs=0.08)


@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean", "w1"])
def test_distances_that_are_no_sum_over_atoms_are_judged_as_squares(data, parity, monkeypatch):
    """By the formula itself, from what the rows show: sqrt(V^2 + overfit^2), and no less than the noise."""
    seen = []
    judge = judging.judge
    monkeypatch.setattr(judging, "judge", lambda *given, **more: seen.append(given) or judge(*given, **more))
    promise = fit(data, parity=parity, epsilon=0.1, atoms=21).certificate_.promise
    figures = []
    for step, shown, *_ in seen:
        assert shown.by_probability is None
        noise = np.sqrt((chance.distances(step, shown.noise) ** 2).mean(axis=0))
        overfit = np.sqrt((chance.distances(step, chance.draw_jackknife(shown.of_fits)) ** 2).mean(axis=0))
        wrong = np.maximum(chance.distances(step, shown.gaps) ** 2 - 0.6 * noise**2, 0.0)
        squares = np.maximum(wrong, shown.own_distances**2) + np.maximum(overfit, 0.75 * noise) ** 2
        figures.append(np.maximum(np.sqrt(squares), noise))
    assert np.isclose(figures, promise.expected, rtol=1e-9).all(axis=1).any()


def test_equal_weights_change_nothing_and_rows_of_weight_zero_do_not_count(data, fitted):
    weighted = ParityRegressor(LinearRegression(), LogisticRegression())
    weighted.fit(
        data.data,
        data.target,
        sensitive_features=data.sensitive_features,
        sample_weight=np.ones(3000),
    )
    np.testing.assert_allclose(
        weighted.certificate_.promise.measured, fitted.certificate_.promise.measured, atol=1e-6
    )
    more = population(200, 8)
    step = ParityPostprocessor(atoms=21)
    scores = np.r_[data.scores, more.scores]
    proba = np.vstack([data.group_proba, more.group_proba])
    groups = np.r_[data.sensitive_features, more.sensitive_features]
    step.fit(scores, proba, sample_weight=np.r_[np.ones(3000), np.zeros(200)], sensitive_features=groups)
    alone = ParityPostprocessor(atoms=21)
    alone.fit(data.scores, data.group_proba, sensitive_features=data.sensitive_features)
    # fits that only measure are as precise as a fiftieth of epsilon: sums that round elsewhere end elsewhere
    np.testing.assert_allclose(step.tolerance_, alone.tolerance_, rtol=1e-3)


@pytest.mark.parametrize(
    ("promised", "wanted"),
    [
        (lambda share: 0.2 + share, 0.74),
        (lambda share: 0.1 + 0.5 * share, 1.0),
        (lambda share: 1.2 + share, LEAST_SHARE),
        (lambda share: np.hypot(0.5, share), 0.8),
        (lambda share: 0.8 + 0.4 * share, 0.33),
    ],
)
def test_the_search_ends_at_the_largest_share_that_keeps_the_promise(promised, wanted):
    search = ShareSearch()
    for _ in range(judging.MOST_TRIES):
        search.note(promised(search.share))
    assert search.settled() == pytest.approx(wanted, abs=0.06)
    if wanted > LEAST_SHARE:
        assert promised(search.settled()) <= 1.0


def test_what_just_does_is_taken_before_the_least():
    assert ShareSearch(tried=[(0.8, 1.1), (0.5, 0.99), (LEAST_SHARE, 0.98)]).settled() == 0.5


def test_a_stratum_that_is_beyond_reach_does_not_hold_the_others_back():
    rows = population(3000, 2)
    both = np.column_stack([rows.sensitive_features, np.random.default_rng(0).integers(2, size=3000)])
    model = ParityRegressor(attributes="separate", epsilon={0: 0.02, 1: 0.2})
    model.fit(rows.data, rows.target, sensitive_features=both)
    tolerance = model.postprocessor_.tolerance_
    assert (tolerance[2:] == 0.2).all()  # the second attribute says nothing of the outcome
    assert (tolerance[:2] < 0.02).all()


# ---- where it cannot be had ----


def test_a_warning_says_what_can_be_promised():
    rows = population(300)
    with pytest.warns(PromiseWarning, match=r"0\.01 cannot be promised to new people") as caught:
        model = fit(rows, epsilon=0.01)
    promise = model.certificate_.promise
    assert not promise.kept
    assert f"about {promise.promised.max():.3g}" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert promise.rows_needed is None or promise.rows_needed > 300
    assert (model.postprocessor_.tolerance_ == LEAST_SHARE * 0.01).all()


def test_a_wide_tolerance_is_kept_as_it_is(data):
    model = fit(data, epsilon=0.9)
    assert (model.postprocessor_.tolerance_ == 0.9).all()
    assert model.certificate_.promise.kept


def test_exact_parity_is_never_promised(data):
    with pytest.warns(PromiseWarning):
        model = fit(data, epsilon=0.0)
    assert model.certificate_.violation.max() < 1e-4


# ---- a proof ----


def test_rows_set_aside_prove_the_promise():
    rows, aside = population(4000, 6), population(4000, 7)
    model = ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.06, confidence=0.9)
    prove(model, rows, aside)
    promise = model.certificate_.promise
    assert promise.proved
    assert promise.kept
    assert promise.n_rows == 4000
    assert promise.tolerance[0] > 0.2 * 0.06
    assert fresh_distance(model) <= 0.06
    again = certify_held_out(model, aside.sensitive_features, X=aside.data, epsilon=0.06, delta=0.1)
    np.testing.assert_allclose(again.estimate, promise.measured, atol=1e-9)
    assert (promise.bound <= again.upper + 1e-9).all()  # which holds for all groups at once, and both sides


def test_too_few_rows_set_aside_prove_nothing():
    rows, aside = population(2000, 6), population(100, 7)
    model = ParityRegressor(LinearRegression(), LogisticRegression(), confidence=0.9)
    with pytest.warns(PromiseWarning):
        prove(model, rows, aside)
    promise = model.certificate_.promise
    assert promise.proved
    assert not promise.kept
    assert promise.rows_needed is None or promise.rows_needed > 100


def test_a_classifier_proves_equalised_odds():
    rows, aside = population(4000, 6), population(8000, 7)
    chosen, there = (rows.target > 0.1).astype(int), (aside.target > 0.1).astype(int)
    model = ParityClassifier(criterion="equalized_odds", epsilon=0.1, confidence=0.9)
    options = {"X_calibration": aside.data, "sensitive_features_calibration": aside.sensitive_features}
    model.fit(rows.data, chosen, sensitive_features=rows.sensitive_features, y_calibration=there, **options)
    assert model.certificate_.promise.proved
    assert model.certificate_.promise.kept
    with pytest.raises(ValueError, match="pass y"):
        model.fit(rows.data, chosen, sensitive_features=rows.sensitive_features, **options)


# ---- who asks for what ----


@pytest.mark.parametrize("confidence", [0.0, 1.0, 2, "often", True])
def test_a_confidence_that_is_none_is_refused(data, confidence):
    with pytest.raises(ValueError, match='confidence must be "auto", "average"'):
        fit(data, confidence=confidence)


def test_groups_that_are_needed_are_asked_for(data):
    step = ParityPostprocessor(confidence=0.9)
    with pytest.raises(ValueError, match="pass sensitive_features to fit"):
        step.fit(data.scores, data.group_proba)
    with pytest.raises(ValueError, match="has 0 known rows"):
        step.fit(data.scores, data.group_proba, sensitive_features=np.zeros(3000, int))
    with pytest.raises(ValueError, match="groups that the fit has not seen"):
        step.fit(data.scores, data.group_proba, sensitive_features=np.full(3000, 7))
    with pytest.raises(ValueError, match=r"zeros and ones of shape \(3000, 4\)"):
        step.fit(
            data.scores,
            np.hstack([data.group_proba, data.group_proba]),
            strata=[0, 0, 1, 1],
            sensitive_features=data.sensitive_features,
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": "average"}, "pass one, such as confidence=0.9"),
        ({"confidence": 0.9, "groups": None}, "needs the groups of its rows"),
        ({"confidence": 0.9, "groups": 0}, "have nobody of 1"),
    ],
)
def test_rows_set_aside_are_checked_first(data, options, message):
    model = ParityRegressor(confidence=options["confidence"])
    groups = options.get("groups", 0)
    with pytest.raises(ValueError, match=message):
        model.fit(
            data.data,
            data.target,
            sensitive_features=data.sensitive_features,
            X_calibration=data.data[:50],
            sensitive_features_calibration=None if groups is None else np.zeros(50, int),
        )


def test_without_groups_a_post_processor_keeps_epsilon_on_its_rows(data):
    step = ParityPostprocessor().fit(data.scores, data.group_proba)
    assert step.certificate_.promise is None
    np.testing.assert_array_equal(step.tolerance_, step.epsilon_)
    known = ParityPostprocessor().fit(
        data.scores, data.group_proba, sensitive_features=data.sensitive_features
    )
    assert known.certificate_.promise.kept
    assert (known.tolerance_ < 0.05).all()


def test_on_the_rows_of_the_fit_it_is_the_paper_s_step(data):
    model = fit(data, confidence=None)
    assert model.certificate_.promise is None
    assert model.calibrator_ is None
    assert model.certificate_.violation.max() == pytest.approx(0.05, abs=1e-5)


def test_a_stream_goes_on_with_the_tolerance_of_the_fit(data):
    model = fit(data)
    tolerance = model.postprocessor_.tolerance_
    model.partial_fit(population(5000, 11).data)
    np.testing.assert_array_equal(model.postprocessor_.tolerance_, tolerance)
    model.partial_fit(population(5000, 13).data)
    np.testing.assert_array_equal(model.postprocessor_.tolerance_, tolerance)
    np.testing.assert_array_equal(model.postprocessor_.epsilon_, 0.05)
    assert model.certificate_.promise is None  # what was judged is no longer what predicts
    model.postprocessor_.set_params(epsilon=0.2)
    model.partial_fit(population(5000, 12).data)
    np.testing.assert_array_equal(model.postprocessor_.tolerance_, 0.2)


def test_an_interrupt_leaves_the_model_as_it_was(data, monkeypatch):
    model = fit(data)
    before = model.postprocessor_

    def interrupted(self, share):
        raise KeyboardInterrupt

    monkeypatch.setattr(judging.Judge, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(data, model, epsilon=0.1)
    assert model.postprocessor_ is before


def test_many_rows_are_judged_on_a_sample():
    model = fit(population(25_000), atoms=51)
    assert model.certificate_.promise.n_rows == MOST_JUDGED
    assert model.postprocessor_.n_rows_ == 25_000
    assert fresh_distance(model) <= 1.05 * 0.05  # of an average one sample may see a little more
    folds = np.array_split(np.random.default_rng(0).permutation(60_000), 5)
    kinds = np.repeat([0, 1, 2], [59_480, 400, 120])
    some = judging.JudgedRows.choose(folds, kinds)
    counts = np.bincount(kinds[some.places])
    assert counts[1:].tolist() == [200, 120]  # of a rare group enough, or all
    assert len(some.places) < MOST_JUDGED + 320
    assert sorted(np.concatenate(some.folds)) == list(range(len(some.places)))
    for fold, of_all in zip(some.folds, folds, strict=True):
        assert np.isin(some.places[fold], of_all).all()


def test_normal_quantiles_are_not_taken_for_few_fits():
    found = judgement.Judgement(*(np.ones(1) for _ in range(6)), n_fits=5, n_apart=1)
    assert found.bound(0.9) - found.expected > norm.ppf(0.9)
    assert found.bound(None) is None


def test_a_policy_that_is_told_the_group_is_judged_at_the_tolerance_that_it_gets():
    """Parity with the group costs little: multipliers are small, and those of two tolerances alike."""

    def draw(n_rows, seed):
        rng = np.random.default_rng(seed)
        groups = (rng.random(n_rows) < 0.45).astype(int)
        return rng.gamma(4.0, 1.0, n_rows) * np.where(groups, 0.8, 1.0), np.eye(2)[groups], groups

    for seed in range(5):
        scores, told, known = draw(3000, seed)
        step = ParityPostprocessor(epsilon=0.06).fit(scores, told, sensitive_features=known)
        promise = step.certificate_.promise
        assert promise.measured.max() > 0.95 * promise.tolerance.max()
