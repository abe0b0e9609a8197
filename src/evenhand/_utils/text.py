"""Text for messages."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray

WIDEST = 64  # signs of a label that NumPy may hold at a fixed width: each row takes that of the longest one


def text_array(labels: Iterable[Any]) -> AnyArray:
    """Labels as text, one dimension: at a fixed width where none is long, and otherwise as objects.

    One label of a megabyte would take four of them in every row.

    >>> text_array([1, "a"]), text_array(["a", 100 * "b"]).dtype
    (array(['1', 'a'], dtype='<U1'), dtype('O'))
    """
    texts = [str(label) for label in labels]
    if max(map(len, texts), default=0) <= WIDEST:
        return np.array(texts, dtype=str)
    return np.fromiter(texts, dtype=object, count=len(texts))


def is_wide_text(values: Any) -> bool:
    """Whether a list has text that is too long for a fixed width."""
    return isinstance(values, list | tuple) and any(
        isinstance(value, str) and len(value) > WIDEST for value in values
    )


def plain(text: object) -> str:
    """One line without control characters, whatever a file's names hold.

    >>> plain(" two   words ")
    'two words'
    """
    words = " ".join(str(text).split())
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in words)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words as a sentence lists them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def some_of(labels: Iterable[object], most: int = 8) -> str:
    """Labels as a message names them; of many, the first and how many more there are.

    >>> some_of(["a", 1, "c"], most=2)
    "'a', 1 and 1 more"
    """
    return some_words(map(repr, labels), most)


def some_words(words: Iterable[str], most: int = 8) -> str:
    """The first of many words, and how many more there are."""
    every = list(words)
    more = [f"{len(every) - most} more"] if len(every) > most else []
    return " and ".join([", ".join(every[:most]), *more])


def spaced(count: int) -> str:
    """A count with thin groups of digits.

    >>> spaced(12_000)
    '12 000'
    """
    return f"{count:,}".replace(",", " ")


def capital(text: str) -> str:
    """The text with a capital first letter, and all else as it was.

    >>> capital("mean KS")
    'Mean KS'
    """
    return text[:1].upper() + text[1:]
