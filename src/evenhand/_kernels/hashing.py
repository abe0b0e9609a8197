"""SipHash-2-4 over rows of bytes: a keyed hash that cannot be steered without the key.

Two rounds for each word of eight bytes and four at the end, as published by Aumasson and Bernstein
(2012).
"""

import numpy as np
from numba import njit

_OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}

_INIT_0, _INIT_1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_INIT_2, _INIT_3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FINAL = np.uint64(0xFF)
_WORD = np.uint64(64)


@njit(**_OPTIONS)
def _rotate(x, bits):
    return (x << np.uint64(bits)) | (x >> (_WORD - np.uint64(bits)))


@njit(**_OPTIONS)
def _rounds(v0, v1, v2, v3, count):
    for _ in range(count):
        v0 += v1
        v2 += v3
        v1 = _rotate(v1, 13) ^ v0
        v3 = _rotate(v3, 16) ^ v2
        v0 = _rotate(v0, 32)
        v2 += v1
        v0 += v3
        v1 = _rotate(v1, 17) ^ v2
        v3 = _rotate(v3, 21) ^ v0
        v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@njit(**_OPTIONS)
def _load(data, begin, end):
    """Up to eight bytes as a little-endian word, whatever the machine's own order."""
    word = np.uint64(0)
    for j in range(end - begin):
        word |= np.uint64(data[begin + j]) << np.uint64(8 * j)
    return word


@njit(**_OPTIONS)
def _siphash(data, begin, end, key0, key1):
    v0, v1, v2, v3 = key0 ^ _INIT_0, key1 ^ _INIT_1, key0 ^ _INIT_2, key1 ^ _INIT_3
    whole = begin + (end - begin) // 8 * 8
    for position in range(begin, whole, 8):
        word = _load(data, position, position + 8)
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
        v0 ^= word
    word = _load(data, whole, end) | (np.uint64((end - begin) & 255) << np.uint64(56))
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
    v0 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ _FINAL, v3, 4)
    return v0 ^ v1 ^ v2 ^ v3


@njit(**_OPTIONS)
def siphash_into(out, data, offsets, key0, key1, start, stop):
    """`out[i] = SipHash-2-4(data[offsets[i] : offsets[i + 1]])` for the rows in `start : stop`."""
    for i in range(start, stop):
        out[i] = _siphash(data, offsets[i], offsets[i + 1], key0, key1)
