"""The reduction of Agarwal, Dudik and Wu, against brute force, exact linear programs and fairlearn."""

import numpy as np
import pytest
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy.optimize import linprog
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from evenhand.baselines import ADW
from evenhand.baselines.base import nearest_atom
from evenhand.baselines.game import Game, Rows
from evenhand.baselines.learners import LEARNERS
from evenhand.baselines.saddle import duality_gap, find_saddle, solve_known
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness, risk


def random_rows(seed, n_rows=200, n_groups=3, n_atoms=7, slack=0.05):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=n_rows - n_groups)])
    atoms = np.sort(rng.uniform(size=n_atoms)) if seed % 2 else np.linspace(0.0, 1.0, n_atoms)
    return Rows(rng.uniform(size=n_rows), codes, atoms, np.full(n_groups, slack)), rng


def brute_force_costs(rows, prices):
    """What each row pays for each atom, from the definition of the gaps: (n_rows, n_atoms)."""
    costs = (rows.targets[:, None] - rows.atoms) ** 2
    for i, group in enumerate(rows.codes):
        for j in range(len(rows.atoms) - 1):  # rows at atom j + 1 or above count at threshold j
            for other in range(len(rows.slack)):
                toll = prices[other, j] * ((group == other) / rows.shares[other] - 1.0)
                costs[i, j + 1 :] += toll
    return costs


@pytest.mark.parametrize("seed", range(4))
def test_the_cheapest_atom_of_each_row_is_that_of_brute_force(seed):
    rows, rng = random_rows(seed, n_rows=60)
    prices = rng.normal(scale=0.1, size=(3, 6))
    costs = brute_force_costs(rows, prices)
    chosen = np.searchsorted(rows.atoms, rows.cheapest(rows.targets, prices))
    np.testing.assert_allclose(costs[np.arange(60), chosen], costs.min(axis=1), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_lagrangian_is_the_mean_of_what_the_rows_pay(seed):
    rows, rng = random_rows(seed, n_rows=60)
    prices, positions = rng.normal(size=(3, 6)), rng.integers(7, size=60)
    paid = brute_force_costs(rows, prices)[np.arange(60), positions].mean()
    assert rows.loss(positions) + np.sum(prices * rows.gaps(positions)) == pytest.approx(paid, abs=1e-12)


def test_a_gap_is_a_kolmogorov_smirnov_distance():
    rows, rng = random_rows(0)
    positions = rng.integers(7, size=200)
    distances = ks_unfairness(rows.atoms[positions], rows.codes)
    np.testing.assert_allclose(np.abs(rows.gaps(positions)).max(axis=1), list(distances.values()))


def finite_game(seed, slack):
    """A game whose learner knows a finite class: the member nearest to the targets in mean square."""
    rows, rng = random_rows(seed, slack=slack)
    by_group = rng.normal(size=(40, 1)) * rows.codes / 6  # members that differ in how unlike the groups are
    members = rng.uniform(size=(40, 1)) * (rows.targets + by_group - 0.5) + rng.uniform(size=(40, 1))
    members[0] = 0.5

    def learn(targets):
        number = int(((members - targets) ** 2).mean(axis=1).argmin())
        return number, members[number]

    return Game.open(rows, learn, bound=1e3), members


def exact_mixture(rows, members):
    """The best mixture of a finite class within the tolerances, straight from the definition."""
    positions = [nearest_atom(values, rows.atoms) for values in members]
    losses = np.array([np.mean((rows.targets - rows.atoms[k]) ** 2) for k in positions])
    gaps = []
    for k in positions:
        above = k[:, None] > np.arange(len(rows.atoms) - 1)
        gaps.append([above[rows.codes == group].mean(axis=0) - above.mean(axis=0) for group in range(3)])
    table = np.reshape(gaps, (len(members), -1)).T
    limits = np.repeat(rows.slack, len(rows.atoms) - 1)
    return linprog(
        losses,
        A_ub=np.concatenate([table, -table]),
        b_ub=np.concatenate([limits, limits]),
        A_eq=np.ones((1, len(members))),
        b_eq=[1.0],
        method="highs-ipm",
    )


@pytest.mark.parametrize("slack", [0.0, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_saddle_point_over_a_finite_class_is_the_exact_linear_program(seed, slack):
    game, members = finite_game(seed, slack)
    for values in members:
        game.add(None, values)
    weights, prices = solve_known(game)
    exact = exact_mixture(game.rows, members)
    assert weights @ game.losses == pytest.approx(exact.fun, abs=1e-7)
    assert np.abs(np.tensordot(weights, game.gaps, 1)).max() <= slack + 1e-7
    # The prices prove it: no member is better than the mixture at them, and the gap of duality is zero.
    assert duality_gap(game, weights, prices) == pytest.approx(0.0, abs=1e-7)
    values = game.losses + np.tensordot(game.gaps, prices, 2) - game.rows.slack @ np.abs(prices).sum(axis=1)
    assert values.min() == pytest.approx(exact.fun, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_playing_the_game_improves_on_its_start_and_never_beats_the_exact_mixture(seed):
    game, members = finite_game(seed, 0.02)
    start = solve_known(game)[0] @ game.losses
    saddle = find_saddle(game, nu=1e-4, min_iter=20, max_iter=40)
    reached, exact = saddle.weights @ game.losses, exact_mixture(game.rows, members).fun
    assert np.abs(np.tensordot(saddle.weights, game.gaps, 1)).max() <= 0.02 + 1e-7
    assert exact - 1e-7 <= reached < start - 0.1 * (start - exact)


@pytest.fixture(scope="module")
def population():
    return make_population(1500, n_groups=3, random_state=0)


def fitted(population, learner="ls", **settings):
    return ADW(learner, **settings).fit(
        population.data, population.target, sensitive_features=population.sensitive_features
    )


@pytest.mark.parametrize("learner", [*LEARNERS, Ridge(), DecisionTreeRegressor(max_depth=4, random_state=0)])
@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_every_learner_meets_the_tolerance_on_the_training_rows(population, learner, epsilon):
    rounds = {"min_iter": 2, "max_iter": 2} if learner == "trees" else {"min_iter": 4, "max_iter": 4}
    model = fitted(population, learner, epsilon=epsilon, **rounds)
    pmf = model.predict_pmf(population.data)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0)
    assert max(ks_unfairness(pmf, population.sensitive_features).values()) <= epsilon + 1e-6
    constant = np.var(population.target)
    plain = LinearRegression().fit(population.data, population.target).predict(population.data)
    reached = risk(population.target, pmf, model.atoms_)
    assert reached < constant  # a constant would meet the tolerance, too
    if learner == "ls":
        assert reached > risk(population.target, plain)


def test_tolerances_are_kept_group_by_group(population):
    epsilon = {0: 0.2, 1: 0.02, 2: 0.05}
    pmf = fitted(population, epsilon=epsilon).predict_pmf(population.data)
    for group, distance in ks_unfairness(pmf, population.sensitive_features).items():
        assert distance <= epsilon[group] + 1e-6


def test_a_tighter_tolerance_costs_more(population):
    risks = [
        risk(population.target, model.predict_pmf(population.data), model.atoms_)
        for model in (fitted(population, epsilon=epsilon) for epsilon in (1.0, 0.1, 0.02, 0.0))
    ]
    assert risks == sorted(risks)
    assert risks[0] < risks[1] - 1e-3


def test_without_a_tolerance_that_binds_it_is_plain_least_squares(population):
    model = fitted(population, epsilon=1.0)
    values = LinearRegression().fit(population.data, population.target).predict(population.data)
    expected = model.atoms_[nearest_atom(values, model.atoms_)]
    assert model.weights_.tolist() == [1.0]
    np.testing.assert_array_equal(model.predict(population.data), expected)


def test_least_squares_and_logistic_answers_are_those_of_scikit_learn(population):
    targets = (population.target + 1.0) / 2
    model, values = LEARNERS["ls"](population.data)(targets)
    reference = LinearRegression().fit(population.data, targets)
    np.testing.assert_allclose(values, reference.predict(population.data), atol=1e-10)
    np.testing.assert_allclose(model.predict(population.data), values, atol=1e-10)
    model, values = LEARNERS["logistic"](population.data)(targets)
    # The score equations of logistic regression, which hold for targets between zero and one as well.
    np.testing.assert_allclose(population.data.T @ (values - targets) / len(targets), 0.0, atol=2e-4)
    assert np.mean(values - targets) == pytest.approx(0.0, abs=2e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # fairlearn on new pandas
def test_with_two_atoms_it_is_at_least_as_good_as_fairlearns_reduction():
    """On labels zero and one squared loss is the error rate, and both bound the same selection rates."""
    data = make_population(1000, n_groups=2, separation=1.5, random_state=3)
    cells = (data.data[:, :2] > 0).astype(float)
    labels = (data.target > 0).astype(int)
    groups = data.sensitive_features
    peer = ExponentiatedGradient(
        DecisionTreeClassifier(random_state=0), DemographicParity(difference_bound=0.05), eps=0.05, nu=1e-3
    ).fit(cells, labels, sensitive_features=groups)
    peer_selects = peer._pmf_predict(cells)[:, 1]
    model = ADW(DecisionTreeRegressor(random_state=0), epsilon=0.05, atoms=[0.0, 1.0])
    selects = model.fit(cells, labels, sensitive_features=groups).predict_pmf(cells)[:, 1]

    def error(chance):
        return np.mean(np.abs(labels - chance))

    def gap(chance):
        return max(abs(chance[groups == group].mean() - chance.mean()) for group in (0, 1))

    # Every rule on these four cells is a mixture of the sixteen deterministic ones: the exact optimum.
    names, cell = np.unique(cells, axis=0, return_inverse=True)
    members = (np.arange(16)[:, None] >> cell.ravel() & 1).astype(float)
    gaps = [[chance[groups == group].mean() - chance.mean() for group in (0, 1)] for chance in members]
    exact = linprog(
        [error(chance) for chance in members],
        A_ub=np.concatenate([np.array(gaps).T, -np.array(gaps).T]),
        b_ub=np.full(4, 0.05),
        A_eq=np.ones((1, 16)),
        b_eq=[1.0],
    )
    assert len(names) == 4
    assert gap(selects) <= 0.05 + 1e-6
    assert gap(peer_selects) <= 0.05 + 1e-2
    assert exact.fun - 1e-7 <= error(selects) <= exact.fun + 0.01
    assert error(selects) <= error(peer_selects) + 0.01


def test_draws_follow_the_distribution_and_repeat_themselves(population):
    model = fitted(population, epsilon=0.05, random_state=1)
    rows = np.repeat(population.data[:1], 20_000, axis=0)
    drawn = model.predict(rows, random_state=0)
    shares = (drawn[:, None] == model.atoms_).mean(axis=0)
    np.testing.assert_allclose(shares, model.predict_pmf(rows[:1])[0], atol=5 * 0.5 / np.sqrt(20_000))
    again = model.predict(population.data)
    np.testing.assert_array_equal(again[::-1], model.predict(population.data[::-1]))
    assert np.isin(again, model.atoms_).all()
    np.testing.assert_allclose(
        model.predict_mean(population.data), model.predict_pmf(population.data) @ model.atoms_
    )


def test_a_target_that_never_changes_is_predicted_as_it_is():
    model = ADW(atoms=3).fit(np.arange(6.0)[:, None], np.full(6, 2.0), sensitive_features=[0, 1] * 3)
    assert model.predict(np.zeros((2, 1))).tolist() == [2.0, 2.0]
    assert model.score(np.zeros((2, 1)), [2.0, 2.0]) == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": "svm"}, "learner must be one of 'ls', 'logistic', 'trees'"),
        ({"nu": "small"}, "nu must be"),
        ({"price_bound": -1.0}, "price_bound must be"),
        ({"epsilon": -0.1}, "epsilon must be"),
        ({"min_iter": 9, "max_iter": 5}, "min_iter and max_iter"),
        ({"atoms": 1}, "atoms must be at least 2"),
    ],
)
def test_what_is_wrong_is_said_and_the_last_fit_stands(population, settings, message):
    model = fitted(population, epsilon=1.0)
    before = model.predict_pmf(population.data)
    with pytest.raises(ValueError, match=message):
        model.set_params(**settings).fit(
            population.data[:, :2], population.target, sensitive_features=population.sensitive_features
        )
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.set_params(learner="ls").predict_pmf(population.data), before)


def test_groups_are_needed(population):
    with pytest.raises(ValueError, match="sensitive_features is missing"):
        ADW(DummyRegressor()).fit(population.data, population.target)
