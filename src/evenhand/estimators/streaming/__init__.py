"""Streams: rows that arrive in chunks and are used once without being stored (`partial_fit`)."""

from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import FALSE_ALARM_ROWS, Drift, Monitor
from evenhand.estimators.streaming.state import BLOCK_ROWS, Record, Stream
from evenhand.estimators.streaming.stream import OnDrift, check_on_drift, take_rows

__all__ = [
    "BLOCK_ROWS",
    "FALSE_ALARM_ROWS",
    "Drift",
    "Moments",
    "Monitor",
    "OnDrift",
    "Record",
    "Stream",
    "check_on_drift",
    "take_rows",
]
