"""Bad input: a ValueError that names the argument, and a model that is as it was before."""

import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from evenhand._utils.optional import import_optional
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.exceptions import ClippingWarning, PriorWarning

N = 60
RNG = np.random.default_rng(0)
SCORES = RNG.uniform(0, 1, N)
PROBA = RNG.dirichlet(np.ones(3), N)
NAMED = pd.DataFrame(PROBA, columns=["a", "b", "c"])


def changed(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


def test_a_device_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"on a device needs 'torch'.*pip install 'evenhand\[torch\]'"):
        ParityPostprocessor(device="cuda").fit(SCORES, PROBA)


# name: (words of the message, arguments of fit, parameters)
BAD_FITS = {
    "NaN score": ("scores must be finite.*row 3", {"scores": changed(SCORES, 3, np.nan)}, {}),
    "infinite score": ("scores must be finite", {"scores": changed(SCORES, 0, np.inf)}, {}),
    "missing score": ("scores", {"scores": [None, *SCORES[1:]]}, {}),
    "missing score in polars": ("scores", {"scores": pl.Series([None, *SCORES[1:]])}, {}),
    "text for scores": ("scores must hold numbers", {"scores": ["1.0"] * N}, {}),
    "complex scores": ("scores must hold numbers", {"scores": SCORES + 1j}, {}),
    "ragged scores": ("scores cannot be read", {"scores": [[1.0], [1.0, 2.0]]}, {}),
    "scores in a column": ("scores must have shape", {"scores": SCORES[:, None]}, {}),
    "one score": ("scores must have shape", {"scores": 1.0}, {}),
    "no rows": ("scores is empty", {"scores": [], "group_proba": np.empty((0, 3))}, {}),
    "negative probability": (
        "group_proba must not be negative: row 5",
        {"group_proba": changed(PROBA, (5, slice(None)), [-0.1, 0.6, 0.5])},
        {},
    ),
    "NaN probability": ("group_proba must be finite", {"group_proba": changed(PROBA, (1, 1), np.nan)}, {}),
    "probabilities that do not sum to one": (
        "group_proba must sum to one.*row 2",
        {"group_proba": changed(PROBA, (2, slice(None)), [0.5, 0.4, 0.2])},
        {},
    ),
    "probabilities of one group only": ("group_proba must have shape", {"group_proba": PROBA[:, 0]}, {}),
    "three dimensions": ("group_proba must have shape", {"group_proba": PROBA[None]}, {}),
    "text for probabilities": ("group_proba must hold numbers", {"group_proba": PROBA.astype(str)}, {}),
    "one group": ("group_proba needs at least two groups", {"group_proba": np.ones((N, 1))}, {}),
    "no group": ("group_proba needs at least two groups", {"group_proba": np.ones((N, 0))}, {}),
    "other length": ("group_proba has 59 rows", {"group_proba": PROBA[1:]}, {}),
    "a group without mass": (
        "group 'empty' no mass",
        {"group_proba": pd.DataFrame({"a": np.ones(N) / 2, "b": np.ones(N) / 2, "empty": np.zeros(N)})},
        {},
    ),
    "a group without mass where it weighs": (
        "group 0 no mass",
        {
            "group_proba": changed(np.tile([0.0, 0.5, 0.5], (N, 1)), (0, slice(None)), [0.5, 0.5, 0.0]),
            "sample_weight": changed(np.ones(N), 0, 0.0),
        },
        {},
    ),
    "columns of the same name": (
        "group_proba",
        {"group_proba": pd.DataFrame(PROBA, columns=["a", "a", "b"])},
        {},
    ),
    "negative weight": ("sample_weight must not be", {"sample_weight": changed(np.ones(N), 0, -1)}, {}),
    "NaN weight": ("sample_weight must be finite", {"sample_weight": changed(np.ones(N), 0, np.nan)}, {}),
    "no weight": ("sample_weight is zero", {"sample_weight": np.zeros(N)}, {}),
    "weights of other length": ("sample_weight has 3 rows", {"sample_weight": np.ones(3)}, {}),
    "one weight": ("sample_weight must have shape", {"sample_weight": 1.0}, {}),
    "negative epsilon": ("epsilon must be finite and not negative", {}, {"epsilon": -0.1}),
    "NaN epsilon": ("epsilon must be finite and not negative", {}, {"epsilon": np.nan}),
    "infinite epsilon": ("epsilon must be finite and not negative", {}, {"epsilon": np.inf}),
    "one negative epsilon": ("epsilon must be finite and not neg", {}, {"epsilon": [0.1, -0.1, 0.1]}),
    "epsilon of other length": (
        r"epsilon needs one value per group: got 2 values for 3 groups \(a, b, c\)",
        {"group_proba": NAMED},
        {"epsilon": [0.1, 0.2]},
    ),
    "epsilon of an unknown group": (
        r"epsilon names unknown group\(s\) z. The groups are a, b, c",
        {"group_proba": NAMED},
        {"epsilon": {"a": 0.1, "b": 0.1, "z": 0.1}},
    ),
    "epsilon without a group": (
        r"epsilon has no value for group\(s\) c",
        {"group_proba": NAMED},
        {"epsilon": {"a": 0.1, "b": 0.1}},
    ),
    "text for epsilon": ("epsilon must hold numbers", {}, {"epsilon": "small"}),
    "no epsilon": ("epsilon", {}, {"epsilon": None}),
    "beta of zero": ("beta must be", {}, {"beta": 0.0}),
    "negative beta": ("beta must be", {}, {"beta": -1.0}),
    "NaN beta": ("beta must be", {}, {"beta": np.nan}),
    "infinite beta": ("beta must be", {}, {"beta": np.inf}),
    "text for beta": ("beta must be", {}, {"beta": "high"}),
    "two betas": ("beta must be", {}, {"beta": [1.0, 2.0]}),
    "unsorted atoms": ("atoms must be sorted", {}, {"atoms": [0.0, 2.0, 1.0]}),
    "repeated atoms": ("atoms must differ: 0.5", {}, {"atoms": [0.0, 0.5, 0.5, 1.0]}),
    "one atom": ("atoms needs at least two", {}, {"atoms": [0.5]}),
    "number of atoms below two": ("atoms must be at least 2", {}, {"atoms": 1}),
    "NaN atom": ("atoms must be finite", {}, {"atoms": [0.0, np.nan]}),
    "table of atoms": ("atoms needs at least two values in one", {}, {"atoms": [[0.0, 1.0]]}),
    "text for atoms": ("atoms must be", {}, {"atoms": "many"}),
    "bounds the wrong way": ("bounds must have low < high", {}, {"bounds": (1.0, 0.0)}),
    "empty bounds": ("bounds must have low < high", {}, {"bounds": (1.0, 1.0)}),
    "three bounds": ("bounds must be", {}, {"bounds": (0.0, 0.5, 1.0)}),
    "NaN bound": ("bounds must be", {}, {"bounds": (0.0, np.nan)}),
    "text for bounds": ("bounds must be", {}, {"bounds": "wide"}),
    "unknown parity": ("Unknown parity 'equal'. Valid names: cdf, mean, pmf", {}, {"parity": "equal"}),
    "unknown solver": ("Unknown solver 'magic'.*batch", {}, {"solver": "magic"}),
    "negative random_state": ("random_state", {}, {"random_state": -1}),
    "text for random_state": ("random_state", {}, {"random_state": "now"}),
    "prior of other length": ("group_prior needs one value per group", {"group_prior": [0.5, 0.5]}, {}),
    "prior of zero": ("group_prior must be positive", {"group_prior": [0.0, 0.5, 0.5]}, {}),
    "NaN prior": ("group_prior must be positive", {"group_prior": [np.nan, 0.5, 0.5]}, {}),
    "prior that does not sum to one": ("group_prior must sum", {"group_prior": [0.5, 0.5, 0.5]}, {}),
    "prior of an unknown group": ("group_prior names unknown", {"group_prior": {"z": 1.0}}, {}),
    "one number for prior": ("group_prior needs one value per group", {"group_prior": 0.3}, {}),
    "infeasible prior, cdf": (
        "group_prior makes the problem infeasible for group 'c': its prior is 0.8.*smallest feasible",
        {"group_proba": NAMED, "group_prior": [0.1, 0.1, 0.8]},
        {"epsilon": [10.0, 10.0, 0.01]},
    ),
    "infeasible prior, pmf": (
        "group_prior makes the problem infeasible",
        {"group_prior": [0.1, 0.1, 0.8]},
        {"parity": "pmf", "epsilon": 0.0},
    ),
}


def snapshot(model):
    return {name: id(value) for name, value in vars(model).items()}


@pytest.mark.parametrize("case", BAD_FITS)
def test_a_bad_fit_names_the_argument_and_leaves_nothing_behind(case):
    message, arguments, parameters = BAD_FITS[case]
    arguments = {"scores": SCORES, "group_proba": PROBA} | arguments
    model = ParityPostprocessor(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(**arguments)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("case", BAD_FITS)
def test_a_bad_fit_leaves_a_fitted_model_as_it_was(case):
    message, arguments, parameters = BAD_FITS[case]
    model = ParityPostprocessor(atoms=5).fit(SCORES, PROBA)
    before = model.predict_pmf(SCORES, PROBA)
    model.set_params(**parameters)
    fitted = snapshot(model)
    with pytest.raises(ValueError, match=message):
        model.fit(**{"scores": SCORES, "group_proba": PROBA} | arguments)
    assert snapshot(model) == fitted
    assert np.array_equal(model.predict_pmf(SCORES, PROBA), before)


METHODS = ("predict", "predict_pmf", "predict_mean", "predict_quantile")


@pytest.fixture(scope="module")
def fitted():
    return ParityPostprocessor(atoms=5).fit(SCORES, NAMED)


@pytest.mark.parametrize("method", METHODS)
def test_predict_before_fit_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(ParityPostprocessor(), method)(SCORES, PROBA)


BAD_PREDICTS = {
    "fewer groups": ("group_proba has 2 groups, but the model was fitted with 3", SCORES, PROBA[:, :2]),
    "more groups": ("group_proba has 4 groups", SCORES, np.full((N, 4), 0.25)),
    "other names": ("group_proba has columns a, b, d", SCORES, NAMED.rename(columns={"c": "d"})),
    "NaN score": ("scores must be finite", changed(SCORES, 3, np.nan), PROBA),
    "no rows": ("scores is empty", [], np.empty((0, 3))),
    "sums": ("group_proba must sum to one", SCORES, 0.9 * PROBA),
    "shape": ("group_proba must have shape", SCORES, PROBA[:, 0]),
    "length": ("group_proba has 59 rows", SCORES, PROBA[1:]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", BAD_PREDICTS)
def test_a_bad_predict_names_the_argument(fitted, case, method):
    message, scores, proba = BAD_PREDICTS[case]
    with pytest.raises(ValueError, match=message):
        getattr(fitted, method)(scores, proba)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.5, np.nan, [0.5, 0.5], np.full((N, 1), 0.5), "median"])
def test_a_quantile_level_outside_the_open_interval_is_refused(fitted, q):
    with pytest.raises(ValueError, match=r"\bq must"):
        fitted.predict_quantile(SCORES, PROBA, q=q)


def test_ids_must_be_one_per_row_and_exclude_a_random_state(fitted):
    with pytest.raises(ValueError, match="ids has 3 values, but there are 60 rows"):
        fitted.predict(SCORES, PROBA, ids=[1, 2, 3])
    with pytest.raises(ValueError, match="ids asks for the same draws"):
        fitted.predict(SCORES, PROBA, ids=np.arange(N), random_state=0)
    with pytest.raises(ValueError, match="random_state"):
        fitted.predict(SCORES, PROBA, random_state=-1)


def test_scores_outside_the_bounds_are_counted_and_clipped_with_a_warning_at_the_caller():
    scores = changed(SCORES, slice(0, 4), [-1.0, 2.0, 1.5, 0.5])
    with pytest.warns(ClippingWarning, match=r"3 of 60 scores lie outside bounds=\(0, 1\)") as record:
        model = ParityPostprocessor(bounds=(0, 1), atoms=11).fit(scores, PROBA)
    assert record[0].filename == __file__
    assert model.n_clipped_ == 3
    clipped = ParityPostprocessor(bounds=(0, 1), atoms=11).fit(np.clip(scores, 0, 1), PROBA)
    assert clipped.n_clipped_ == 0
    assert np.array_equal(model.multipliers_, clipped.multipliers_)
    assert np.array_equal(model.predict_pmf(scores, PROBA), clipped.predict_pmf(scores, PROBA))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_renormalised_after_rounding_of_their_own_precision(dtype):
    rounded = PROBA.astype(dtype) * dtype(1 + (5e-5 if dtype == np.float32 else 5e-7))
    model = ParityPostprocessor(atoms=5).fit(SCORES, rounded)
    assert model.group_prior_.sum() == pytest.approx(1.0, abs=1e-15)


def test_a_prior_that_moves_parity_by_more_than_epsilon_warns_where_it_is_still_feasible():
    mean = PROBA.mean(axis=0)
    prior = mean * [1.05, 1.0, 1.0]
    prior /= prior.sum()
    for parity in ("pmf", "mean"):
        with pytest.warns(PriorWarning, match="The prior of group 0") as record:
            ParityPostprocessor(parity=parity, epsilon=0.01, atoms=15).fit(SCORES, PROBA, group_prior=prior)
        assert record[0].filename == __file__
    ParityPostprocessor(epsilon=0.2, atoms=15).fit(SCORES, PROBA, group_prior=prior)


def test_the_smallest_feasible_epsilon_of_the_message_is_feasible():
    prior = [0.3, 0.3, 0.4]
    for parity in ("pmf", "cdf"):
        model = ParityPostprocessor(parity=parity, epsilon=0.0, atoms=7)
        with pytest.raises(ValueError, match="smallest feasible one, ") as error:
            model.fit(SCORES, PROBA, group_prior=prior)
        smallest = float(str(error.value).split("smallest feasible one, ")[1].split(". ")[0])
        imbalance = np.abs(1 - PROBA.mean(axis=0) / prior).max()
        assert smallest == pytest.approx(imbalance / (7 if parity == "pmf" else 1), rel=1e-5)
        model.set_params(epsilon=smallest)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PriorWarning)  # feasible, and as meaningless as it says
            model.fit(SCORES, PROBA, group_prior=prior)
        assert np.all(model.certificate_.violation <= smallest + 2e-5)


def test_a_prior_that_is_the_mean_up_to_rounding_is_the_mean():
    rounded = PROBA.mean(axis=0).astype(np.float32)
    model = ParityPostprocessor(epsilon=0.0, atoms=7).fit(SCORES, PROBA, group_prior=rounded)
    np.testing.assert_allclose(model.group_prior_, PROBA.mean(axis=0), rtol=1e-14)


def test_a_missing_extra_is_named_with_the_way_to_get_it():
    with pytest.raises(ImportError, match=r"Drawing needs 'no_such_module'.*pip install 'evenhand\[plot\]'"):
        import_optional("no_such_module", extra="plot", purpose="Drawing")
