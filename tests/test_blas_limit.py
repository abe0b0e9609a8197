"""BLAS has one thread in every phase of a fit, and concurrent fits agree to the bit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

import evenhand as eh
from evenhand._kernels.blas import one_blas_thread
from evenhand.calibration import joint
from evenhand.estimators import fit_models, step_fit

SEEN = []


def blas_threads():
    return max((each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"), default=1)


def note(phase):
    SEEN.append((phase, blas_threads()))


class ProbeRegressor(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        note("outcome fit")
        self.model_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        note("outcome predict")
        return self.model_.predict(X)


class ProbeClassifier(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        note("group fit")
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        note("group predict")
        return self.model_.predict_proba(X)


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() < 2:
            pytest.skip("this BLAS has one thread")
        yield


@pytest.fixture(scope="module")
def people():
    return eh.datasets.make_population(1500, n_groups=3, random_state=0)


def watched(monkeypatch, module, name):
    inner = getattr(module, name)

    def outer(*args, **kwargs):
        note(name)
        return inner(*args, **kwargs)

    monkeypatch.setattr(module, name, outer)


@pytest.mark.usefixtures("two_threads")
def test_every_phase_of_a_fit_has_one_blas_thread(people, monkeypatch):
    SEEN.clear()
    watched(monkeypatch, joint, "fit_logistic")
    watched(monkeypatch, fit_models, "diagnose_calibration")
    watched(monkeypatch, step_fit, "search_tolerance")
    watched(monkeypatch, step_fit, "run_and_warn")
    watched(monkeypatch, step_fit, "measure_price")
    model = eh.ParityRegressor(ProbeRegressor(), ProbeClassifier())
    model.fit(people.data, people.target, sensitive_features=people.sensitive_features)
    assert {phase for phase, _ in SEEN} == {
        "outcome fit",
        "outcome predict",
        "group fit",
        "group predict",
        "fit_logistic",
        "diagnose_calibration",
        "search_tolerance",
        "run_and_warn",
        "measure_price",
    }
    assert {threads for _, threads in SEEN} == {1}
    assert blas_threads() == 2  # and the limit is lifted


@pytest.mark.usefixtures("two_threads")
def test_the_limit_stays_until_the_last_of_several_threads_has_left():
    entered, leave = threading.Barrier(2), threading.Event()

    def stay():
        with one_blas_thread():
            entered.wait()
            leave.wait()
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            inside = pool.submit(stay)
            entered.wait()
        assert blas_threads() == 1  # the other one is still inside
        leave.set()
        assert inside.result() == 1
    assert blas_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_concurrent_fits_agree_to_the_bit(people):
    def fit(_):
        model = eh.ParityRegressor(epsilon=0.05)
        model.fit(people.data, people.target, sensitive_features=people.sensitive_features)
        return model.multipliers_.tobytes(), model.tolerance_.tobytes()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit, range(4)))
    assert set(found) == {fit(0)}
