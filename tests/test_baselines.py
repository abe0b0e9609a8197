"""The base model and the methods that see the group, against closed forms and the parity step."""

import numpy as np
import pytest
from scipy.sparse import issparse
from scipy.stats import wasserstein_distance
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import evenhand as eh
from evenhand.baselines import ADW, AwarePlugin, BaseModel, WassersteinBarycentre
from evenhand.baselines.transport import Transport
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness, risk, unfairness

CENTRES, SPREADS, SHARES = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 2.0]), np.array([0.2, 0.5, 0.3])


def normal_groups(n_rows, seed=0):
    """Scores of three normal groups, and their codes."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(3, size=n_rows, p=SHARES)
    return CENTRES[codes] + SPREADS[codes] * rng.standard_normal(n_rows), codes


class Identity(LinearRegression):
    """A model that predicts its only feature."""

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def barycentre(scores, codes, **settings):
    return WassersteinBarycentre(Identity(), **settings).fit(
        scores[:, None], scores, sensitive_features=codes
    )


def test_the_barycentre_of_normal_groups_is_the_closed_form():
    scores, codes = normal_groups(10_000)
    model = barycentre(scores, codes, atoms=401)
    moved = model.predict_mean(scores[:, None], sensitive_features=codes)
    centre, spread = SHARES @ CENTRES, SHARES @ SPREADS
    expected = centre + spread * (scores - CENTRES[codes]) / SPREADS[codes]
    central = np.abs(scores - CENTRES[codes]) < 2 * SPREADS[codes]  # quantiles in the tails are noisy
    np.testing.assert_allclose(moved[central], expected[central], atol=0.15)
    assert np.sqrt(np.mean((moved - expected) ** 2)) < 0.05
    cost = SHARES @ ((CENTRES - centre) ** 2 + (SPREADS - spread) ** 2)  # W2^2 between normals
    pmf = model.predict_pmf(scores[:, None], sensitive_features=codes)
    assert risk(scores, pmf, model.atoms_) == pytest.approx(cost, rel=0.03)


def test_the_barycentre_is_the_aware_parity_step_at_tolerance_zero():
    scores, codes = normal_groups(2000)
    model = barycentre(scores, codes, atoms=61)
    peer = eh.ParityPostprocessor(parity="pmf", epsilon=0.0, atoms=model.atoms_, beta=5000.0)
    peer.fit(scores, np.eye(3)[codes])
    pmf = model.predict_pmf(scores[:, None], sensitive_features=codes)
    of_peer = peer.predict_pmf(scores, np.eye(3)[codes])
    ours, theirs = risk(scores, pmf, model.atoms_), risk(scores, of_peer, model.atoms_)
    assert ours == pytest.approx(theirs, rel=0.01)
    assert np.abs(pmf.mean(axis=0).cumsum() - of_peer.mean(axis=0).cumsum()).max() < 0.03


def test_parity_is_exact_on_the_rows_of_the_fit_even_with_ties():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [50, 70, 110])
    scores = rng.integers(3, size=len(codes)) + 0.5 * codes
    model = barycentre(scores, codes, atoms=101)
    pmf = model.predict_pmf(scores[:, None], sensitive_features=codes)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0)
    assert max(ks_unfairness(pmf, codes).values()) < 1e-9


def test_part_of_the_way_leaves_that_part_of_the_distance():
    scores, codes = normal_groups(3000)
    whole = unfairness(scores, codes, metric="w2", pairwise=True)
    for moved in (0.0, 0.3, 0.7):
        model = barycentre(scores, codes, moved=moved, atoms=801)
        pmf = model.predict_pmf(scores[:, None], sensitive_features=codes)
        left = unfairness(pmf, codes, model.atoms_, metric="w2", pairwise=True)
        for pair, distance in left.items():
            assert distance == pytest.approx((1.0 - moved) * whole[pair], rel=0.02)


def test_the_least_move_for_a_target_meets_it_and_less_does_not():
    scores, codes = normal_groups(1500)
    model = barycentre(scores, codes, epsilon=0.1)
    assert 0.0 < model.moved_ < 1.0
    for moved, meets in [(model.moved_, True), (model.moved_ - 0.01, False)]:
        pmf = model.transport_.pmf(scores, codes, model.atoms_, moved)
        assert (max(ks_unfairness(pmf, codes).values()) <= 0.1) is meets
    assert barycentre(scores, codes, epsilon=1.0).moved_ == 0.0
    assert barycentre(scores, codes, epsilon=0.0).moved_ == 1.0


def test_new_scores_move_with_their_neighbours():
    scores, codes = normal_groups(500)
    transport = Transport.between(scores, codes, 3)
    atoms = np.linspace(-8.0, 8.0, 1601)
    between = np.sort(scores[codes == 1])[[100, 101]].mean()
    new = transport.pmf(np.array([between, -99.0, 99.0]), np.array([1, 1, 1]), atoms, 1.0) @ atoms
    low, high = transport.pmf(np.sort(scores[codes == 1])[[100, 101]], np.array([1, 1]), atoms, 1.0) @ atoms
    assert low - 0.01 <= new[0] <= high + 0.01
    assert new[1:] == pytest.approx(transport.quantiles[[0, -1]], abs=0.01)


def test_unlabelled_rows_make_the_step_of_the_aware_methods():
    data = make_population(2000, n_groups=2, random_state=0)
    labelled, rest = slice(0, 500), slice(500, 2000)
    # The barycentre is exact on these rows; the plug-in predicts the best of its softened atoms.
    for method, tolerance in [(WassersteinBarycentre(), 1e-9), (AwarePlugin(beta=2000.0), 0.04)]:
        model = method.fit(
            data.data[labelled],
            data.target[labelled],
            sensitive_features=data.sensitive_features[labelled],
            X_unlabeled=data.data[rest],
            sensitive_features_unlabeled=data.sensitive_features[rest],
        )
        groups = data.sensitive_features[rest]
        pmf = model.predict_pmf(data.data[rest], sensitive_features=groups)
        base = model.estimator_.predict(data.data[rest])
        assert max(ks_unfairness(base, groups).values()) > 0.1
        assert max(ks_unfairness(pmf, groups).values()) < tolerance
        assert wasserstein_distance(base, pmf @ model.atoms_) < 0.2


def test_the_plugin_costs_what_the_barycentre_does():
    scores, codes = normal_groups(2000)
    plugin = AwarePlugin(Identity(), beta=5000.0).fit(scores[:, None], scores, sensitive_features=codes)
    pmf = plugin.predict_pmf(scores[:, None], sensitive_features=codes)
    assert set(np.unique(pmf)) == {0.0, 1.0}
    exact = barycentre(scores, codes, atoms=plugin.atoms_)
    of_exact = exact.predict_pmf(scores[:, None], sensitive_features=codes)
    ours, theirs = risk(scores, pmf, plugin.atoms_), risk(scores, of_exact, plugin.atoms_)
    assert ours == pytest.approx(theirs, rel=0.05)


def test_the_base_model_is_its_regressor():
    data = make_population(400, n_groups=2, random_state=0)
    model = BaseModel(LinearRegression()).fit(
        data.data, data.target, sensitive_features=data.sensitive_features
    )
    values = LinearRegression().fit(data.data, data.target).predict(data.data)
    np.testing.assert_array_equal(model.predict(data.data), values)
    step = np.diff(model.atoms_).max()
    pmf = model.predict_pmf(data.data)
    np.testing.assert_array_equal(pmf.sum(axis=1), 1.0)
    np.testing.assert_allclose(pmf @ model.atoms_, values, atol=step / 2 + 1e-12)
    assert risk(data.target, pmf, model.atoms_) == pytest.approx(risk(data.target, values), rel=0.01)


@pytest.mark.parametrize("method", [WassersteinBarycentre(), AwarePlugin()])
def test_a_method_that_sees_the_group_asks_for_it(method):
    data = make_population(200, n_groups=2, random_state=0)
    model = method.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    with pytest.raises(ValueError, match="aware: pass the group"):
        model.predict(data.data)
    with pytest.raises(ValueError, match="not seen: 7"):
        model.predict(data.data, sensitive_features=np.full(200, 7))


@pytest.mark.parametrize("method", [WassersteinBarycentre(), AwarePlugin()])
def test_unlabelled_rows_and_their_groups_come_together_and_show_every_group(method):
    data = make_population(200, n_groups=3, random_state=0)
    groups = data.sensitive_features
    known = {"X": data.data, "y": data.target, "sensitive_features": groups}
    with pytest.raises(ValueError, match="pass these, too"):
        method.fit(**known, sensitive_features_unlabeled=groups)
    some = groups != 1
    with pytest.raises(ValueError, match="sensitive_features_unlabeled has no row of group 1"):
        method.fit(**known, X_unlabeled=data.data[some], sensitive_features_unlabeled=groups[some])
    assert not hasattr(method, "atoms_")


@pytest.mark.parametrize(
    ("settings", "message"), [({"moved": 1.5}, "moved must lie"), ({"epsilon": -1.0}, "epsilon must be")]
)
def test_the_barycentre_refuses_what_it_cannot_do(settings, message):
    scores, codes = normal_groups(100)
    with pytest.raises(ValueError, match=message):
        barycentre(scores, codes, **settings)


class SelfGroupedADW(ADW):
    """For callers that know nothing of groups: every second row."""

    def fit(self, X, y):
        table = X if issparse(X) else np.asarray(X)
        return super().fit(X, y, sensitive_features=np.arange(table.shape[0]) % 2)


@parametrize_with_checks([SelfGroupedADW(epsilon=1.0), BaseModel(LinearRegression())])
def test_scikit_learn_finds_nothing_amiss(estimator, check):
    check(estimator)
