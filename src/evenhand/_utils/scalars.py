"""Validate public arguments that are one number, one flag or one of several words."""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

NEAREST_SHARE = 1e-12  # of a probability to zero or one


def as_number(value: Any, name: str, what: str = "a finite number") -> float:
    """A finite number; `what` says in the message what is wanted.

    >>> as_number("high", "threshold")
    Traceback (most recent call last):
    ValueError: threshold must be a finite number: got 'high'.
    """
    number = _float_of(value)
    if number is None or not math.isfinite(number):
        raise ValueError(f"{name} must be {what}: got {value!r}.")
    return number


def check_share(value: Any, name: str, example: float) -> float:
    """A number strictly between 0 and 1, and no nearer to either than any statistic could tell.

    >>> check_share(95, "level", 0.95)
    Traceback (most recent call last):
    ValueError: level must lie strictly between 0 and 1, such as 0.95: got 95.
    """
    number = _float_of(value)
    if number is None or not NEAREST_SHARE <= number <= 1.0 - NEAREST_SHARE:
        raise ValueError(f"{name} must lie strictly between 0 and 1, such as {example:g}: got {value!r}.")
    return number


def check_count(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """A whole number, at least `least`, and at most `most`.

    >>> check_count(2.5, "n_boot")
    Traceback (most recent call last):
    ValueError: n_boot must be a whole number of at least 1: got 2.5.
    """
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}: got {value!r}.")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}: got {value!r}.")
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """True or False, also NumPy's; zero and one are taken for them.

    >>> check_flag(None, "pairwise")
    Traceback (most recent call last):
    ValueError: pairwise must be True or False: got None.
    """
    if is_flag(value) or (is_whole(value) and value in (0, 1)):
        return bool(value)
    raise ValueError(f"{name} must be True or False: got {value!r}.")


def check_word(value: Any, name: str, known: Collection[str]) -> str:
    """One of the `known` words.

    >>> check_word("dwk", "method", ("bootstrap", "dkw"))
    Traceback (most recent call last):
    ValueError: method must be one of bootstrap, dkw: got 'dwk'.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}: got {value!r}.")
    return value


def make_generator(random_state: Any) -> np.random.Generator:
    """A generator of random numbers from a seed, or the one that is given.

    >>> make_generator(-1)
    Traceback (most recent call last):
    ValueError: random_state must be None, a whole number of at least 0 or a numpy.random.Generator: got -1.
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if not is_whole(random_state) or random_state < 0:
        raise ValueError(
            "random_state must be None, a whole number of at least 0 or a numpy.random.Generator: "
            f"got {random_state!r}."
        )
    return np.random.default_rng(int(random_state))


def is_whole(value: object) -> bool:
    """Whether a value is an integer; flags and NumPy's times, which count as integers to Python, are none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def is_flag(value: object) -> bool:
    """Whether a value is True or False, which Python also counts among the numbers."""
    return isinstance(value, bool | np.bool_)


def _float_of(value: Any) -> float | None:
    """A number as a float; None for anything else, flags and times too, and for what no float can hold."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real) or is_flag(value) or isinstance(value, np.timedelta64):
        return None
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None
