"""Parity within strata against a linear program that is written out from the definition of each notion."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from evenhand import ParityPostprocessor
from evenhand._utils.stored import find_fault
from evenhand.dual.costs import CostMatrix, Huber, Pinball
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.estimators.strata import Strata

N_ROWS, N_GROUPS, N_CLASSES = 80, 3, 3
RNG = np.random.default_rng(0)
LEAN = RNG.normal(size=N_ROWS)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


SCORES = np.tanh(LEAN + 0.5 * RNG.normal(size=N_ROWS))
TAU = softmax(np.outer(LEAN, [1.0, 0.0, -1.0]) + 0.5 * RNG.normal(size=(N_ROWS, 3)))
OTHER = softmax(np.outer(LEAN, [0.0, 1.0]) + 0.5 * RNG.normal(size=(N_ROWS, 2)))
FACTOR = RNG.integers(0, 2, N_ROWS)
CLASSES = softmax(np.outer(LEAN, [1.0, 0.0, -1.5]) + RNG.normal(size=(N_ROWS, 3)))
JOINT = softmax(
    (np.log(CLASSES)[:, :, None] + np.log(TAU)[:, None] + RNG.normal(size=(80, 3, 3))).reshape(80, 9)
)
Y_OF, S_OF = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)

NOTIONS = {  # columns, strata
    "several attributes": (np.hstack([TAU, OTHER]), ["sex"] * 3 + ["race"] * 2),
    "given a factor": (np.hstack([TAU * (f == FACTOR)[:, None] for f in (0, 1)]), [0] * 3 + [1] * 3),
    "equalised odds": (JOINT, Y_OF.tolist()),
    "equal opportunity": (JOINT[:, Y_OF == 2], [2] * 3),
}
ABSOLUTE = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
SETTINGS = {  # options, scores, costs of the rows in user's units, from their definition
    "squared": ({"atoms": 7, "bounds": (-1, 1)}, SCORES, lambda eta, y: (eta - y) ** 2),
    "absolute": ({"atoms": 7, "bounds": (-1, 1), "cost": "absolute"}, SCORES, lambda eta, y: abs(eta - y)),
    "pinball": (
        {"atoms": 7, "bounds": (-1, 1), "cost": Pinball(0.8)},
        SCORES,
        lambda eta, y: 0.8 * max(eta - y, 0) + 0.2 * max(y - eta, 0),
    ),
    "huber": (
        {"atoms": 7, "bounds": (-1, 1), "cost": Huber(0.3)},
        SCORES,
        lambda eta, y: (eta - y) ** 2 if abs(eta - y) < 0.3 else 0.6 * abs(eta - y) - 0.09,
    ),
    "own": (
        {"atoms": 7, "bounds": (-1, 1), "cost": lambda eta, y: 3.0 + (eta[:, None] - y) ** 4},
        SCORES,
        lambda eta, y: 3.0 + (eta - y) ** 4,
    ),
    "classes": (
        {"cost": ABSOLUTE, "parity": "pmf"},
        CLASSES,
        lambda proba, y: sum(p * abs(k - y) for k, p in enumerate(proba)),
    ),
}


def exact_risk(costs, columns, strata, parity, epsilon):
    """Smallest expected cost subject to parity, the constraints written out one by one."""
    n_rows, n_atoms = costs.shape
    limits = []
    for c, stratum in enumerate(strata):
        inside = [k for k, other in enumerate(strata) if other == stratum]
        of_stratum = columns[:, inside].sum(axis=1)
        weight = of_stratum / of_stratum.sum() - columns[:, c] / columns[:, c].sum()
        for atom in range(n_atoms):
            chosen = np.zeros(n_atoms)
            chosen[: atom + 1] = 1.0 if parity == "cdf" else 0.0
            chosen[atom] = 1.0
            limits.append(np.outer(weight, chosen).ravel())
    limits = np.array(limits)
    found = linprog(
        costs.ravel() / n_rows,
        A_ub=np.vstack([limits, -limits]),
        b_ub=np.full(2 * len(limits), epsilon),
        A_eq=np.kron(np.eye(n_rows), np.ones(n_atoms)),
        b_eq=np.ones(n_rows),
    )
    assert found.status == 0
    return found.fun


def violations(pmf, columns, strata, parity):
    """The largest difference between a group and its stratum, group by group."""
    found = []
    for c, stratum in enumerate(strata):
        of_stratum = columns[:, [other == stratum for other in strata]].sum(axis=1)
        gap = pmf.T @ columns[:, c] / columns[:, c].sum() - pmf.T @ of_stratum / of_stratum.sum()
        found.append(np.abs(np.cumsum(gap) if parity == "cdf" else gap).max())
    return np.array(found)


@pytest.mark.parametrize("parity", ["pmf", "cdf"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_every_notion_meets_its_tolerance_at_the_risk_of_the_linear_program(notion, setting, parity):
    columns, strata = NOTIONS[notion]
    options, scores, cost = SETTINGS[setting]
    model = ParityPostprocessor(**{"parity": parity, "epsilon": 0.03, "beta": 20_000.0, **options})
    model.fit(scores, columns, strata=strata)
    costs = np.array([[cost(score, atom) for atom in model.atoms_] for score in scores])
    pmf = model.predict_pmf(scores, columns)
    risk = (pmf * costs).sum(axis=1).mean()
    best = exact_risk(costs, columns, strata, model.parity, 0.03)
    assert violations(pmf, columns, strata, model.parity).max() <= 0.03 + 2e-5
    assert risk == pytest.approx(best, rel=5e-3)
    certificate = model.certificate_
    assert certificate.risk == pytest.approx(risk, rel=1e-9)
    assert certificate.lower_bound <= best * (1 + 1e-9)
    np.testing.assert_allclose(
        certificate.violation, violations(pmf, columns, strata, model.parity), atol=1e-9
    )
    assert certificate.violation.max() > 0.029  # the tolerance binds, or this test says nothing


def test_one_stratum_of_groups_is_demographic_parity():
    options = {"epsilon": 0.02, "beta": 100.0}
    plain = ParityPostprocessor(**options).fit(SCORES, TAU)
    strata = ParityPostprocessor(**options).fit(SCORES, TAU, strata=["all"] * 3)
    np.testing.assert_allclose(strata.predict_pmf(SCORES, TAU), plain.predict_pmf(SCORES, TAU), atol=1e-6)


def test_the_mean_imbalance_of_a_stratum_weighted_by_its_groups_is_zero():
    columns, _ = NOTIONS["equalised odds"]
    prior = columns.mean(axis=0)
    model = ImbalanceModel.from_prior(prior, Y_OF)
    imbalance = model.kept_rows(columns).T @ model.mixing
    direct = stratum_sums(columns, Y_OF) / stratum_sums(prior, Y_OF) - columns / prior
    np.testing.assert_allclose(imbalance, direct, atol=1e-12)
    np.testing.assert_allclose(stratum_sums(imbalance * prior, Y_OF), 0.0, atol=1e-12)


def test_labels_name_stratum_and_group_and_tolerances_go_by_either():
    columns, strata = NOTIONS["several attributes"]
    frame = pd.DataFrame(columns, columns=["f", "m", "x", "a", "b"])
    model = ParityPostprocessor(epsilon={"race": 0.1, "sex": 0.02}).fit(SCORES, frame, strata=strata)
    assert model.groups_.tolist()[2:4] == [("sex", "x"), ("race", "a")]
    np.testing.assert_allclose(model.epsilon_, [0.02] * 3 + [0.1] * 2)
    shuffled = frame[["b", "x", "f", "a", "m"]]
    np.testing.assert_array_equal(model.predict(SCORES, shuffled), model.predict(SCORES, frame))
    by_cell = dict.fromkeys(model.groups_.tolist(), 0.05)
    assert ParityPostprocessor(epsilon=by_cell).fit(SCORES, frame, strata=strata).epsilon_.max() == 0.05


def test_the_same_row_of_class_probabilities_draws_the_same_class():
    columns, strata = NOTIONS["equalised odds"]
    model = ParityPostprocessor(cost=1.0 - np.eye(3), parity="pmf").fit(CLASSES, columns, strata=strata)
    whole = model.predict(CLASSES, columns)
    assert set(whole) <= {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(model.predict(CLASSES[40:50], columns[40:50]), whole[40:50])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strata": ["a"] * 4}, "one label per column"),
        ({"strata": ["a"] * 4 + ["b"]}, "has one column, and parity needs two"),
        ({"strata": ["a"] * 5}, "at most one within a stratum: row"),
        ({"strata": ["a"] * 3 + ["b"] * 2, "group_prior": [0.1] * 5}, "infeasible"),
    ],
)
def test_what_cannot_be_strata_is_refused(change, message):
    columns, _ = NOTIONS["several attributes"]
    with pytest.raises(ValueError, match=message):
        ParityPostprocessor(epsilon=0.01).fit(SCORES, columns, **change)


@pytest.mark.parametrize(
    ("cost", "scores", "message"),
    [
        ("cubic", SCORES, "Unknown cost 'cubic'"),
        (1 - np.eye(3), SCORES, "class probabilities of shape"),
        (1 - np.eye(3), 2 * CLASSES, "scores must sum to one"),
        (np.ones((3, 3)), CLASSES, "nothing to choose by"),
        (np.ones(3), CLASSES, "must have shape"),
        (np.full((3, 3), np.nan), CLASSES, "must be finite"),
        (lambda eta, y: eta - y[0], SCORES, "one row for each score"),
        (lambda eta, y: np.full((len(eta), len(y)), np.inf), SCORES, "infinite"),
    ],
)
def test_a_cost_that_cannot_be_one_is_refused(cost, scores, message):
    with pytest.raises(ValueError, match=message):
        ParityPostprocessor(cost=cost).fit(scores, TAU)


@pytest.mark.parametrize(("kind", "value"), [(Pinball, 0.0), (Pinball, 1.0), (Huber, 0.0), (Huber, -1.0)])
def test_a_parameter_of_a_cost_that_means_nothing_is_refused(kind, value):
    with pytest.raises(ValueError, match="must be"):
        kind(value)


def test_atoms_of_a_cost_matrix_are_its_columns():
    model = ParityPostprocessor(cost=1 - np.eye(3), atoms=[10.0, 20.0, 40.0]).fit(CLASSES, TAU)
    assert set(model.predict(CLASSES, TAU)) <= {10.0, 20.0, 40.0}
    for atoms in (4, [1.0, 2.0]):
        with pytest.raises(ValueError, match="columns"):
            ParityPostprocessor(cost=1 - np.eye(3), atoms=atoms).fit(CLASSES, TAU)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strata": np.array([0, 0, 5])}, "count from zero"),
        ({"strata": np.array([0, 0, -1])}, "count from zero"),
        ({"strata": np.zeros(2, np.int64)}, "one integer for each group"),
        ({"strata": np.zeros(3)}, "one integer for each group"),
        ({"cost": "squared"}, "not a cost"),
        ({"cost": CostMatrix(np.ones((3, 4)))}, "a column for each atom"),
    ],
)
def test_a_policy_from_a_file_whose_strata_or_cost_do_not_fit_is_refused(change, message):
    policy = ParityPostprocessor(cost=1.0 - np.eye(3)).fit(CLASSES, TAU).policy_
    assert find_fault(policy) is None
    assert message in find_fault(replace(policy, **change))


@pytest.mark.parametrize("matrix", [np.ones(3), np.ones((1, 3)), np.full((2, 2), np.nan), "costs"])
def test_a_cost_matrix_from_a_file_that_is_none_is_refused(matrix):
    assert "table of finite numbers" in find_fault(CostMatrix(matrix))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": [0]}, "labels are not tuples"),
        ({"names": ()}, "groups for each attribute"),
        ({"groups": (("a", "b"), ("c", "d"))}, "groups for each attribute"),
        ({"groups": (["a", "b"],)}, "labels are not tuples"),
        ({"groups": (([], "b"),)}, "labels are not hashable"),
        ({"factors": 3}, "labels are not tuples"),
        ({"outcomes": ("maybe",)}, "not among its classes"),
        ({"outcomes": ("yes",), "classes": None}, "not among its classes"),
        ({"separate": 1}, "neither true nor false"),
        ({"joint": None}, "neither true nor false"),
    ],
)
def test_strata_from_a_file_that_are_none_are_refused(change, message):
    sound = Strata(("sex",), (("a", "b"),), separate=False, classes=("no", "yes"))
    assert find_fault(sound) is None
    assert message in find_fault(replace(sound, **change))
