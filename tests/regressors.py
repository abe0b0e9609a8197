"""The regressor that several files test, and the people that it is fitted on."""

from functools import cache

from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityRegressor
from evenhand.datasets import make_population


@cache
def people():
    return make_population(1500, n_groups=2, separation=2.0, random_state=0)


def simple(**options):
    return ParityRegressor(LinearRegression(), LogisticRegression(), **options)


@cache
def fit_simple():
    data = people()
    return simple().fit(data.data, data.target, sensitive_features=data.sensitive_features)
