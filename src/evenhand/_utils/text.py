"""Text for messages."""

from collections.abc import Sequence


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


def capital(text: str) -> str:
    """The text with a capital first letter, and all else as it was.

    >>> capital("mean KS")
    'Mean KS'
    """
    return text[:1].upper() + text[1:]
