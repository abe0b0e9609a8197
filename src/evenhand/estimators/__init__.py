"""Estimators: a model of the outcome, a model of the group, and the parity step between them."""

from evenhand.estimators.classifier import ParityClassifier
from evenhand.estimators.regressor import ParityRegressor
from evenhand.estimators.tabular import table_pipeline

__all__ = ["ParityClassifier", "ParityRegressor", "table_pipeline"]
