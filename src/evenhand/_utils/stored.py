"""Objects that a model file may hold, and what must be true of one that was read from a file."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

_CLASSES: dict[str, type["Stored"]] = {}
MODERATE = 1e100
_OWN = __name__.partition(".")[0]


class Stored:
    """Base of what a model file may hold: dataclasses, enumerations, and estimators of this package.

    To inherit from it is to take part: from its definition on, a class is known to `evenhand.load`. A file
    holds the fields of a dataclass; `load` calls the class with them, and then asks for its `faults`.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = stored_name(cls)
        if name in _CLASSES and _CLASSES[name].__module__ != cls.__module__:
            raise TypeError(f"{_CLASSES[name].__module__} and {cls.__module__} both define a stored {name}.")
        _CLASSES[name] = cls  # `@dataclass(slots=True)` makes a class twice: the second one is to stay

    def faults(self) -> Iterator[str]:
        """Why this object cannot be one of its class, where a file says something that no `save` writes.

        Each is the end of a sentence, such as "its level is not a number". Only the first is told, so that a
        check may rely on those before it, and on those of its own parts.
        """
        return iter(())


def stored_name(cls: type) -> str:
    """What a file calls a class: its name alone if it is of this package, with its module if it is not.

    >>> stored_name(Stored), stored_name(dict)
    ('Stored', 'builtins.dict')
    """
    return cls.__name__ if is_own(cls) else f"{cls.__module__}.{cls.__qualname__}"


def stored_classes() -> dict[str, type[Stored]]:
    """All classes that take part and are defined by now, by what a file calls them."""
    return dict(_CLASSES)


def is_own(cls: type) -> bool:
    """Whether a class is defined in this package."""
    return cls.__module__.partition(".")[0] == _OWN


def find_fault(value: Stored) -> str | None:
    """The first thing that is wrong with an object, or None."""
    try:
        fault = next(iter(value.faults()), None)
    except Exception as error:  # of content so far from what is expected that no check foresaw it
        fault = f"{type(error).__name__} while it was checked: {error}"
    return fault and fault.removesuffix(".")


def is_floats(value: object, *shape: int | None) -> bool:
    """Whether a value is an array of doubles of this shape, in which None stands for any length.

    >>> is_floats(np.zeros((3, 2)), 3, None), is_floats(np.zeros(3), 3, None)
    (True, False)
    """
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.ndim == len(shape)
        and all(wanted in (None, size) for wanted, size in zip(shape, value.shape, strict=True))
    )


def is_finite(value: Any, *shape: int | None) -> bool:
    """Whether a value is an array of finite doubles of this shape, or without a shape one finite float.

    >>> is_finite(np.array([1.0, np.nan]), 2), is_finite(np.ones(2), None), is_finite(0.5), is_finite(np.inf)
    (False, True, True, False)
    """
    if not shape:
        return type(value) is float and math.isfinite(value)
    return is_floats(value, *shape) and bool(np.isfinite(value).all())


def is_moderate(value: Any, *shape: int | None) -> bool:
    """Whether a value is finite, and sums and squares of it are: for numbers that no user's unit enters."""
    return is_finite(value, *shape) and bool(np.all(np.abs(value) <= MODERATE))


def is_count(value: object, least: int = 0) -> bool:
    """Whether a value is an integer of at least `least`."""
    return type(value) is int and value >= least
