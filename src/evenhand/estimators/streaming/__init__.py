"""Streams: rows that come in chunks, each used once and forgotten (`partial_fit`)."""

from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import FALSE_ALARM_ROWS, Drift, Monitor
from evenhand.estimators.streaming.partial import OnDrift, PartialFit, heard_by
from evenhand.estimators.streaming.state import BLOCK_ROWS, Record, Standing, Stream

__all__ = [
    "BLOCK_ROWS",
    "FALSE_ALARM_ROWS",
    "Drift",
    "Moments",
    "Monitor",
    "OnDrift",
    "PartialFit",
    "Record",
    "Standing",
    "Stream",
    "heard_by",
]
