"""Text for messages."""

from collections.abc import Iterable, Sequence


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
