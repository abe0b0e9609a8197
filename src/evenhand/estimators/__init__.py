"""Estimators that combine a model of the outcome, a model of the group and the parity step."""

from evenhand.estimators.classifier import ParityClassifier
from evenhand.estimators.models import table_pipeline
from evenhand.estimators.regressor import ParityRegressor

__all__ = ["ParityClassifier", "ParityRegressor", "table_pipeline"]
