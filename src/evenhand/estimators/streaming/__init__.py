"""Streams: rows that come in chunks, each used once and forgotten (`partial_fit`)."""

from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import FALSE_ALARM_ROWS, Drift, Monitor
from evenhand.estimators.streaming.partial_fit import OnDrift, PartialFit, check_on_drift
from evenhand.estimators.streaming.state import BLOCK_ROWS, Record, Stream

__all__ = [
    "BLOCK_ROWS",
    "FALSE_ALARM_ROWS",
    "Drift",
    "Moments",
    "Monitor",
    "OnDrift",
    "PartialFit",
    "Record",
    "Stream",
    "check_on_drift",
]
