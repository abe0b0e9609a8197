"""A checkpoint belongs to a fit: resumed with another one, it is refused, and says the way out."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from evenhand import ParityPostprocessor, ParityRegressor, load, save
from evenhand.datasets import make_population
from evenhand.tables import stream_table
from evenhand.tables.digests import digest

skops = pytest.importorskip("skops.io")

DATA = make_population(6000, 2, random_state=0)
FRAME = pd.DataFrame(DATA.data, columns=DATA.feature_names)
ROWS = DATA.scores, DATA.group_proba
ANOTHER_FIT = "is a checkpoint of another fit: {} .* would be lost"


def fit_estimator(n_rows=1000, **settings):
    model = ParityRegressor(LinearRegression(), LogisticRegression(), random_state=0, **settings)
    part = slice(n_rows)
    return model.fit(FRAME[part], DATA.target[part], sensitive_features=DATA.sensitive_features[part])


def fit_step(n_rows=1000):
    return ParityPostprocessor(random_state=0).fit(DATA.scores[:n_rows], DATA.group_proba[:n_rows])


def chunks(model, stop=6000):
    whole = FRAME if isinstance(model, ParityRegressor) else None
    for start in range(0, stop, 500):
        part = slice(start, start + 500)
        yield tuple(rows[part] for rows in ROWS) if whole is None else whole[part]


def stream(model, path, stop=6000, **options):
    return stream_table(model, chunks(model, stop), checkpoint=path, block_rows=500, resume=True, **options)


@pytest.mark.parametrize("make", [fit_estimator, fit_step])
def test_a_new_fit_is_not_replaced_by_a_checkpoint_in_silence(make, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream(make(), path, stop=3000)
    new = make(n_rows=900)
    before = digest(vars(new))
    what = "the parity step" if make is fit_step else "the models of the outcome and of the group"
    with pytest.raises(ValueError, match=ANOTHER_FIT.format(what)):
        stream(new, path)
    assert digest(vars(new)) == before
    stream(new, tmp_path / "its own", stop=3000)  # one way out


@pytest.mark.parametrize("make", [fit_estimator, fit_step])
def test_the_model_of_the_checkpoint_goes_on_in_every_shape(make, tmp_path):
    save(make(), tmp_path / "fitted")
    expected = stream(make(), tmp_path / "at once").predict
    arguments = (FRAME,) if make is fit_estimator else ROWS
    halfway = pickle.dumps(stream(make(), tmp_path / "half", stop=3000))
    for name, model in {
        "the same fit again": make(),
        "the fit from its file": load(tmp_path / "fitted"),
        "not fitted": clone(make()),
        "the checkpoint itself": load(tmp_path / "half"),
        "what stood at the checkpoint": pickle.loads(halfway),
        "what went on after it": stream(pickle.loads(halfway), tmp_path / "half", stop=4500),
    }.items():
        path = tmp_path / name
        stream(make(), path, stop=3000)
        np.testing.assert_array_equal(stream(model, path).predict(*arguments), expected(*arguments))


@pytest.mark.parametrize("make", [fit_estimator, fit_step])
def test_a_model_that_was_refitted_after_its_stream_is_another_one(make, tmp_path):
    path, model = tmp_path / "stream.evenhand", make()
    stream(model, path, stop=3000)
    if make is fit_step:
        model.fit(DATA.scores[:800], DATA.group_proba[:800])
    else:
        part = slice(800)
        model.fit(FRAME[part], DATA.target[part], sensitive_features=DATA.sensitive_features[part])
    with pytest.raises(ValueError, match="of another fit"):
        stream(model, path)


def test_a_stream_over_a_second_table_has_a_checkpoint_of_its_own(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    stream(fit_step(), first)
    stream(load(first), second, stop=3000)
    resumed = stream(load(first), second)  # the script again, after a kill
    np.testing.assert_array_equal(resumed.predict(*ROWS), load(second).predict(*ROWS))
    with pytest.raises(ValueError, match="of another fit"):
        stream(load(second), first)


def test_a_model_that_was_saved_by_hand_as_a_checkpoint_still_tells_other_models(tmp_path):
    path = tmp_path / "stream.evenhand"
    old = stream(fit_estimator(), path, stop=3000)
    del old.table_origin_
    save(old, path)
    with pytest.raises(ValueError, match="of another fit"):
        stream(fit_estimator(900), path)
    stream(fit_estimator(), path)


MODELS = {
    "logistic": LogisticRegression(),
    "forest": RandomForestRegressor(n_estimators=3),
    "histograms": HistGradientBoostingRegressor(max_iter=5),
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "network": MLPClassifier(max_iter=2),
    "vectors": SVC(),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_digest_survives_a_file_and_tells_fits_apart(name):
    X, y = DATA.data[:300], DATA.sensitive_features[:300]
    model = clone(MODELS[name]).fit(X, y)
    written = skops.dumps(model)
    again = skops.loads(written, trusted=skops.get_untrusted_types(data=written))
    assert digest(again) == digest(model) == digest(pickle.loads(pickle.dumps(model)))
    assert digest(clone(model).fit(X[:200], y[:200])) != digest(model)


def test_a_digest_tells_what_is_alike_from_what_is_not():
    itself = []
    itself.append(itself)
    values = [
        None,
        0,
        0.0,
        False,
        "0",
        b"0",
        [0],
        [[0]],
        {0: 1},
        {0},
        np.zeros(1),
        np.zeros((1, 1)),
        dict,
        itself,
    ]
    assert len(set(map(digest, values))) == len(values)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(np.array(["a", None], object)) == digest(np.array(["a", None], object))
