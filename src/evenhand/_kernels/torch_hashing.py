"""SipHash-2-4 of rows of words in plain torch: the hash of `hashing.py`, bit for bit, on any device.

Words are signed here, as torch has no arithmetic of unsigned ones: sums wrap around alike, and shifts to the
right are masked.
"""

from typing import Any

import torch

_INIT = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def signed(word: int) -> int:
    """A 64-bit word as torch writes it."""
    return word - (1 << 64) if word >> 63 else word


def _rotate(word: Any, by: int) -> Any:
    return (word << by) | ((word >> (64 - by)) & ((1 << by) - 1))


def _rounds(v: list[Any], count: int) -> list[Any]:
    v0, v1, v2, v3 = v
    for _ in range(count):
        v0 = v0 + v1
        v1 = _rotate(v1, 13) ^ v0
        v0 = _rotate(v0, 32)
        v2 = v2 + v3
        v3 = _rotate(v3, 16) ^ v2
        v0 = v0 + v3
        v3 = _rotate(v3, 21) ^ v0
        v2 = v2 + v1
        v1 = _rotate(v1, 17) ^ v2
        v2 = _rotate(v2, 32)
    return [v0, v1, v2, v3]


def siphash(words: Any, key: tuple[int, int]) -> Any:
    """SipHash-2-4 of each column of `words`, (n_words, n_rows) of int64, under a key of two: (n_rows,)."""
    start = [signed(part ^ init) for part, init in zip((key[0], key[1]) * 2, _INIT, strict=True)]
    v = [torch.full_like(words[0], part) for part in start]
    length = torch.full_like(words[0], signed(((8 * len(words)) & 255) << 56))
    for word in (*words, length):
        v[3] = v[3] ^ word
        v = _rounds(v, 2)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ 255
    v = _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]
