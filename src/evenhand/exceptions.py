"""Warnings of this package, with one category per cause so that each can be filtered separately."""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "CacheWarning",
    "ClippingWarning",
    "ConvergenceWarning",
    "DriftWarning",
    "EvenhandWarning",
    "GroupInFeaturesWarning",
    "InactiveConstraintWarning",
    "IndependenceWarning",
    "InterruptWarning",
    "LevellingDownWarning",
    "LongCellWarning",
    "NumbersAsGroupsWarning",
    "OutlierWarning",
    "PriceWarning",
    "PriorWarning",
    "ProxyWarning",
    "SharedDrawsWarning",
    "SinglePrecisionWarning",
    "StepAloneWarning",
    "ToleranceWarning",
]


class EvenhandWarning(UserWarning):
    """Base class of all warnings of this package."""


class CacheWarning(EvenhandWarning):
    """Compiled loops cannot be cached on disk, so each process compiles them again."""


class ConvergenceWarning(EvenhandWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before it met its tolerance."""


class ClippingWarning(EvenhandWarning):
    """Scores outside the given bounds were moved to the nearest bound."""


class PriorWarning(EvenhandWarning):
    """The given group prior differs so much from the group probabilities that parity is not meaningful."""


class ToleranceWarning(EvenhandWarning):
    """The estimated distance on new data exceeds epsilon."""


class PriceWarning(EvenhandWarning):
    """After the parity step the model is hardly better than a constant prediction."""


class LevellingDownWarning(EvenhandWarning):
    """Many fewer people are selected than before the parity step."""


class LongCellWarning(EvenhandWarning):
    """A cell of a CSV file has very many line breaks, as it has where a quote is out of place."""


class ProxyWarning(EvenhandWarning):
    """Groups are known by probabilities only, so errors that depend on the prediction cannot be detected."""


class GroupInFeaturesWarning(EvenhandWarning):
    """A feature is the group itself, but the model should not use the group."""


class NumbersAsGroupsWarning(EvenhandWarning):
    """Each value of a column that looks numeric, such as an age, became a separate group."""


class InactiveConstraintWarning(EvenhandWarning):
    """The parity constraint has no effect: any predictions satisfy it."""


class IndependenceWarning(EvenhandWarning):
    """The fit assumes that group and outcome are independent given the features."""


class SharedDrawsWarning(EvenhandWarning):
    """Many rows have identical features and share one random draw of `predict` unless `ids` are passed."""


class StepAloneWarning(EvenhandWarning):
    """A wrapped model cannot be exported to ONNX, so the graph contains the parity step only."""


class SinglePrecisionWarning(EvenhandWarning):
    """Parts of an ONNX graph use single precision, so its predictions are only approximately equal."""


class DriftWarning(EvenhandWarning):
    """The distribution of the rows of a stream has changed."""


class OutlierWarning(EvenhandWarning):
    """Some outcomes are extreme outliers that can dominate the fit of a model."""


class InterruptWarning(EvenhandWarning):
    """An interrupt stopped a long computation early; the results so far are returned."""
