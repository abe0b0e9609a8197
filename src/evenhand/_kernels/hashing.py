"""SipHash-2-4 over rows of bytes: a keyed hash that cannot be steered without the key.

Two rounds for each word of eight bytes and four at the end, as published by Aumasson and Bernstein
(2012).
"""

import numpy as np

from evenhand._kernels.compiling import njit

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


@njit(**_OPTIONS)
def _absorb(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
    return v0 ^ word, v1, v2, v3


@njit(**_OPTIONS)
def _finish(v0, v1, v2, v3, n_words):
    """The last block of a message of whole words holds only its length in bytes, modulo 256."""
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64((8 * n_words) & 255) << np.uint64(56))
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ _FINAL, v3, 4)
    return v0 ^ v1 ^ v2 ^ v3


@njit(**_OPTIONS)
def siphash_cells_into(out, words, head, key0, key1):
    """SipHash-2-4 of `head`, then column and word of each cell that is not zero, row by row."""
    for i in range(words.shape[0]):
        v0, v1, v2, v3 = key0 ^ _INIT_0, key1 ^ _INIT_1, key0 ^ _INIT_2, key1 ^ _INIT_3
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, head)
        n_words = 1
        for j in range(words.shape[1]):
            if words[i, j] != 0:
                v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(j))
                v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, words[i, j])
                n_words += 2
        out[i] = _finish(v0, v1, v2, v3, n_words)


@njit(**_OPTIONS)
def siphash_sparse_into(out, words, columns, offsets, head, key0, key1):
    """The same hash of rows in compressed form, columns increasing within each row."""
    for i in range(len(offsets) - 1):
        v0, v1, v2, v3 = key0 ^ _INIT_0, key1 ^ _INIT_1, key0 ^ _INIT_2, key1 ^ _INIT_3
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, head)
        n_words = 1
        for position in range(offsets[i], offsets[i + 1]):
            if words[position] != 0:
                v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(columns[position]))
                v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, words[position])
                n_words += 2
        out[i] = _finish(v0, v1, v2, v3, n_words)
