"""Warnings of this package, one category for each cause, so that each can be filtered alone."""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "CacheWarning",
    "ClippingWarning",
    "ConvergenceWarning",
    "DriftWarning",
    "EvenhandWarning",
    "GroupInFeaturesWarning",
    "IndependenceWarning",
    "InterruptWarning",
    "LevellingWarning",
    "LongCellWarning",
    "NothingAskedWarning",
    "NumbersAsGroupsWarning",
    "OutlierWarning",
    "PriceWarning",
    "PriorWarning",
    "PromiseWarning",
    "ProxyWarning",
    "SharedDrawsWarning",
    "SinglePrecisionWarning",
    "StepAloneWarning",
]


class EvenhandWarning(UserWarning):
    """Base of every warning of this package."""


class CacheWarning(EvenhandWarning):
    """Compiled loops cannot be kept on disk, so that each process compiles them anew."""


class ConvergenceWarning(EvenhandWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before it met its tolerance."""


class ClippingWarning(EvenhandWarning):
    """Scores outside the given bounds were moved to the nearest bound."""


class PriorWarning(EvenhandWarning):
    """The given group prior is so far from the rows that parity within epsilon loses its meaning."""


class PromiseWarning(EvenhandWarning):
    """New people will see a larger distance between groups than was asked for."""


class PriceWarning(EvenhandWarning):
    """Parity leaves next to nothing of what the scores tell: one value for everybody would nearly do."""


class LevellingWarning(EvenhandWarning):
    """Far fewer people are selected than before the parity step."""


class LongCellWarning(EvenhandWarning):
    """A cell of a CSV file has very many line breaks, as it has where a quote is out of place."""


class ProxyWarning(EvenhandWarning):
    """Groups are known by probabilities alone, which hide what they err in together with the prediction."""


class GroupInFeaturesWarning(EvenhandWarning):
    """A feature is the group itself, in a model that is meant to do without."""


class NumbersAsGroupsWarning(EvenhandWarning):
    """Groups look like a number, such as an age, of which every value became a group of its own."""


class NothingAskedWarning(EvenhandWarning):
    """What is asked for holds of any predictions."""


class IndependenceWarning(EvenhandWarning):
    """Group and outcome are taken to be independent given the features."""


class SharedDrawsWarning(EvenhandWarning):
    """Many rows have the same features, and so share one draw of `predict` unless each has an id."""


class StepAloneWarning(EvenhandWarning):
    """A model inside has no ONNX form, so that the graph holds the parity step alone."""


class SinglePrecisionWarning(EvenhandWarning):
    """An ONNX graph holds parts of a model in single precision, and its answers are near and not equal."""


class DriftWarning(EvenhandWarning):
    """The rows of a stream are no longer like those before them."""


class OutlierWarning(EvenhandWarning):
    """Some targets are so far from the others that a model may bend to them alone."""


class InterruptWarning(EvenhandWarning):
    """An interrupt ended a long computation early; what was done by then is returned."""
