"""The keyed hash of draws as a graph, bit for bit that of `evenhand._kernels.hashing`.

SipHash-2-4 works on 64-bit words: here all rows at once, word by word, with a mask of the words that a row
has. ONNX Runtime shifts and combines uint64; version 1.18 does not add or compare them, where int64 has the
same bits and wraps around. There is no way to choose between two words, nor to see a float's bits: both are
done by arithmetic.
"""

from functools import cache
from sys import maxunicode
from unicodedata import category

import numpy as np

from evenhand.data.draws import GRID, ROW_TAG, HashArray
from evenhand.data.features import MISSING
from evenhand.onnx_export.graph import CONTRIB, ML, Graph

INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)  # of SipHash
TABLE_TAG = ord("c")
LOWEST_EXPONENT, HIGHEST_EXPONENT = -1022, 1023  # of a normal float64


def word(value: int) -> np.uint64:
    """A 64-bit word."""
    return np.uint64(value)


def uniforms(graph: Graph, hashes: str) -> str:
    """Hashes, (n_rows,), as numbers in (0, 1): middles of 2^52 equal cells."""
    cells = graph.cast(graph.op("BitShift", hashes, word(12), direction="RIGHT"), np.float64)
    return graph.op("Mul", graph.op("Add", cells, np.float64(0.5)), np.float64(2.0**-52))


def hash_rows(graph: Graph, scaled: str, group_proba: str, key: HashArray) -> str:
    """Hash of what the parity step sees of each row, rounded to a grid, as `uniforms_from_rows` does."""
    cells = graph.cast(graph.join([scaled, group_proba]), np.float64)
    rounded = graph.op("Round", graph.op("Mul", cells, np.float64(GRID)))
    bits = graph.op("Transpose", float_bits(graph, rounded), perm=[1, 0])
    tag = graph.op("Expand", np.array([[ROW_TAG]], np.uint64), _shape_of_one_word(graph, bits))
    words = graph.join([tag, bits], axis=0)
    n_words = graph.op("Shape", words, end=1)
    length = graph.op("BitwiseAnd", graph.cast(graph.op("Mul", n_words, np.int64(8)), np.uint64), word(255))
    last = graph.op("Expand", _length_word(graph, length), _shape_of_one_word(graph, bits))
    return siphash(graph, graph.join([words, last], axis=0), None, key)


def hash_features(graph: Graph, words: str, n_columns: int, key: HashArray) -> str:
    """Hash of rows of cells, (n_rows, n_columns) words: place and word of each that is not zero."""
    cells = graph.op("Transpose", words, perm=[1, 0])
    one_word = _shape_of_one_word(graph, cells)
    zero = graph.op("Equal", graph.cast(cells, np.int64), np.int64(0))
    not_zero = graph.cast(graph.op("Not", zero), np.int64)
    places = graph.op("Expand", np.arange(n_columns, dtype=np.uint64)[:, None], graph.op("Shape", cells))
    pairs = _in_turns(graph, places, cells, n_columns)
    there = _in_turns(graph, not_zero, not_zero, n_columns)
    counted = graph.op("ReduceSum", there, np.array([0]), keepdims=1)
    n_bytes = graph.op("Mul", graph.op("Add", counted, np.int64(1)), np.int64(8))
    length = graph.op("BitwiseAnd", graph.cast(n_bytes, np.uint64), word(255))
    head = graph.op("Expand", np.array([[TABLE_TAG | n_columns << 8]], np.uint64), one_word)
    always = graph.op("Expand", np.array([[1]], np.int64), one_word)
    message = graph.join([head, pairs, _length_word(graph, length)], axis=0)
    return siphash(graph, message, graph.join([always, there, always], axis=0), key)


def _in_turns(graph: Graph, one: str, other: str, n_columns: int) -> str:
    """Rows of two tables of shape (n_columns, n_rows) in turns, (2 n_columns, n_rows)."""
    both = [graph.op("Unsqueeze", table, np.array([1])) for table in (one, other)]
    shape = graph.join([np_int(graph, 2 * n_columns), _last(graph, one)], axis=0)
    return graph.op("Reshape", graph.join(both), shape)


def np_int(graph: Graph, value: int) -> str:
    """A tensor of one integer."""
    return graph.constant(np.array([value], np.int64))


def _last(graph: Graph, value: str) -> str:
    """The size of the second dimension."""
    return graph.op("Shape", value, start=1, end=2)


def _shape_of_one_word(graph: Graph, words: str) -> str:
    """(1, n_rows) of words of shape (n_words, n_rows)."""
    return graph.join([np_int(graph, 1), _last(graph, words)], axis=0)


def _length_word(graph: Graph, length: str) -> str:
    """The last word of a message of whole words: its length in bytes, in the highest byte."""
    return graph.op("BitShift", length, word(56), direction="LEFT")


def hash_integers(graph: Graph, ids: str, key: HashArray) -> str:
    """Hash of integer ids, (n_rows,) of int64: the letter i and eight bytes."""
    values = graph.op("Reshape", graph.cast(ids, np.uint64), np.array([1, -1], np.int64))
    first = graph.op("BitwiseOr", graph.op("BitShift", values, word(8), direction="LEFT"), word(ord("i")))
    rest = graph.op("BitShift", values, word(56), direction="RIGHT")
    last = graph.op("BitwiseOr", rest, word(9 << 56))
    return siphash(graph, graph.join([first, last], axis=0), None, key)


def hash_text(graph: Graph, text: str, key: HashArray) -> str:
    """Hash of text, (n_rows,): the letter s and its bytes in UTF-8."""
    # Operators for text fail where there is no row at all, so one more is hashed, and dropped.
    more = graph.op("Concat", text, np.array([""], object), axis=0)
    words, n_words = _text_words(graph, more)
    places = graph.op("Range", np.int64(0), graph.op("Squeeze", graph.op("Shape", words, end=1)), np.int64(1))
    there = graph.op("Less", graph.column(places), graph.op("Reshape", n_words, np.array([1, -1])))
    hashes = siphash(graph, words, graph.cast(there, np.int64), key)
    return graph.op("Slice", hashes, np.array([0]), np.array([-1]))


def text_cells(graph: Graph, text: str, key: HashArray) -> str:
    """Words of cells of text, (n_rows,): a hash of each, or the word of a missing value where it is empty."""
    missing = graph.op("Equal", character_codes(graph, text, {"": 1}), np.int64(1))
    hashes = graph.cast(hash_text(graph, text, key), np.int64)
    chosen = graph.op("Where", missing, np.int64(int(MISSING)), hashes)
    return graph.cast(chosen, np.uint64)


def number_cells(graph: Graph, numbers: str) -> str:
    """Words of cells of numbers of any shape: their bits as float64, zero and NaN in one way each."""
    return float_bits(graph, graph.cast(numbers, np.float64))


def character_codes(graph: Graph, text: str, codes: dict[str, int]) -> str:
    """Integers that stand for texts, -1 for others."""
    return graph.op(
        "LabelEncoder",
        text,
        domain=ML,
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=-1,
    )


@cache
def alphabet() -> dict[str, int]:
    """All characters of Unicode that stand for something: their bytes in UTF-8, and how many in the fifth."""
    codes = {"": 0}
    for place in range(maxunicode + 1):
        character = chr(place)
        if place and category(character) not in ("Cn", "Cs", "Co"):
            data = character.encode()
            codes[character] = int.from_bytes(data, "little") | len(data) << 32
    return codes


def _text_words(graph: Graph, text: str) -> tuple[str, str]:
    """Words of the message of each text, (n_words, n_rows), and how many of them are its own, (n_rows,)."""
    message = graph.op("StringConcat", np.array(["s"], object), text)
    characters = graph.op(
        "Tokenizer", message, domain=CONTRIB, mark=0, mincharnum=1, pad_value="", separators=[""]
    )
    known = character_codes(graph, characters, alphabet())
    codes = graph.cast(graph.fail_where(graph.op("Less", known, np.int64(0)), known), np.uint64)
    counts = graph.cast(graph.op("BitShift", codes, word(32), direction="RIGHT"), np.int64)
    starts = graph.op("CumSum", counts, np.int64(1), exclusive=1)
    total = graph.op("ReduceSum", counts, np.array([1]), keepdims=1)  # (n_rows, 1)
    n_words = graph.op("Add", graph.op("Div", total, np.int64(8)), np.int64(1))
    width = graph.op("Mul", graph.op("ReduceMax", n_words, keepdims=0), np.int64(8))
    each = graph.op("Unsqueeze", codes, np.array([2]))
    lanes = np.arange(4, dtype=np.uint64)
    single = graph.op("BitwiseAnd", graph.op("BitShift", each, 8 * lanes, direction="RIGHT"), word(255))
    at = graph.op("Add", graph.op("Unsqueeze", starts, np.array([2])), lanes.astype(np.int64))
    there = graph.op("Less", lanes.astype(np.int64), graph.op("Unsqueeze", counts, np.array([2])))
    at = graph.op("Where", there, at, width)  # the others go to a column beyond, which is cut off
    rows = np.array([0, -1], np.int64)  # 0: as it is
    flat = [graph.op("Reshape", table, rows) for table in (at, single)]
    # the length has the highest byte of the last word
    last = graph.op("Sub", graph.op("Mul", n_words, np.int64(8)), np.int64(1))
    length = graph.op("BitwiseAnd", graph.cast(total, np.uint64), word(255))
    places, values = graph.join([flat[0], last]), graph.join([flat[1], length])
    widths = graph.op("Reshape", graph.op("Add", width, np.int64(1)), np.array([1]))
    shape = graph.join([graph.number_of_rows(codes), widths], axis=0)
    empty = graph.op("Expand", np.zeros((1, 1), np.uint64), shape)
    placed = graph.op("ScatterElements", empty, places, values, axis=1)
    kept = graph.op("Slice", placed, np.array([0]), np.array([-1]), np.array([1]))
    return _pack(graph, kept), graph.flat(n_words)


def _pack(graph: Graph, single: str) -> str:
    """Bytes of rows, (n_rows, 8 n_words), as little-endian words, (n_words, n_rows)."""
    octets = graph.op("Reshape", single, np.array([0, -1, 8], np.int64))
    shifted = graph.op("BitShift", octets, 8 * np.arange(8, dtype=np.uint64), direction="LEFT")
    first, *others = graph.ops("Split", 8, shifted, axis=2, num_outputs=8)
    for part in others:
        first = graph.op("BitwiseOr", first, part)
    return graph.op("Transpose", graph.op("Squeeze", first, np.array([2])), perm=[1, 0])


def float_bits(graph: Graph, values: str) -> str:
    """Bits of float64 numbers as uint64; zero has no sign, and all NaN are one.

    The exponent is guessed by a logarithm and mended by comparisons, and what is left after a division by
    that power of two is exact. Numbers below the smallest normal one have its exponent and a fraction
    below one, which gives their bits, too.
    """
    size = graph.op("Abs", values)
    endless, nothing = graph.op("IsInf", size), graph.op("IsNaN", values)
    odd = graph.op("Or", endless, nothing)
    size = graph.op("Where", odd, np.float64(1.0), size)
    guess = graph.op("Floor", graph.op("Mul", graph.op("Log", size), np.float64(1.0 / np.log(2.0))))
    guess = graph.op("Clip", guess, np.float64(LOWEST_EXPONENT), np.float64(HIGHEST_EXPONENT))
    place = graph.cast(guess, np.int64)
    powers = np.ldexp(1.0, np.arange(LOWEST_EXPONENT, HIGHEST_EXPONENT + 1))

    def power(exponent: str) -> str:
        return graph.op("Gather", powers, graph.op("Sub", exponent, np.int64(LOWEST_EXPONENT)))

    too_high = graph.cast(graph.op("Less", size, power(place)), np.int64)
    place = graph.op("Max", graph.op("Sub", place, too_high), np.int64(LOWEST_EXPONENT))
    half = graph.op("Mul", size, np.float64(0.5))
    too_low = graph.cast(graph.op("GreaterOrEqual", half, power(place)), np.int64)
    place = graph.op("Add", place, too_low)
    fraction = graph.op("Mul", graph.op("Div", size, power(place)), np.float64(2.0**52))
    above = graph.op("Mul", graph.op("Sub", place, np.int64(LOWEST_EXPONENT)), np.int64(1 << 52))
    bits = graph.op("Add", above, graph.cast(fraction, np.int64))
    bits = graph.op("Where", endless, np.int64(0x7FF << 52), bits)
    negative = graph.op("Less", values, np.float64(0.0))
    bits = graph.op("Where", negative, graph.op("Add", bits, np.int64(-(2**63))), bits)
    return graph.cast(graph.op("Where", nothing, np.int64(int(MISSING)), bits), np.uint64)


def siphash(graph: Graph, words: str, there: str | None, key: HashArray) -> str:
    """SipHash-2-4 of each row's words, (n_words, n_rows), of which only those that are `there` count.

    The last word, which holds the length, is among them.
    """
    shape = graph.op("Shape", words, start=1)
    start = [int(key[place % 2]) ^ first for place, first in enumerate(INITIAL)]
    state = [graph.op("Expand", np.array([each], np.uint64), shape) for each in start]
    masks = None
    if there is not None:  # all ones, or none
        masks = graph.cast(graph.op("Neg", there), np.uint64)

    def absorb(inner: Graph, place: str, before: list[str]) -> list[str]:
        taken = inner.op("Gather", words, place, axis=0)
        v0, v1, v2, v3 = before
        v0, v1, v2, v3 = _rounds(inner, v0, v1, v2, inner.op("BitwiseXor", v3, taken), 2)
        after = [inner.op("BitwiseXor", v0, taken), v1, v2, v3]
        if masks is None:
            return after
        mask = inner.op("Gather", masks, place, axis=0)
        return [_choose(inner, mask, new, old) for new, old in zip(after, before, strict=True)]

    count = graph.op("Squeeze", graph.op("Shape", words, end=1))
    v0, v1, v2, v3 = graph.loop(count, state, absorb)
    v0, v1, v2, v3 = _rounds(graph, v0, v1, graph.op("BitwiseXor", v2, word(0xFF)), v3, 4)
    one, other = graph.op("BitwiseXor", v0, v1), graph.op("BitwiseXor", v2, v3)
    return graph.op("BitwiseXor", one, other)


def _choose(graph: Graph, mask: str, new: str, old: str) -> str:
    changed = graph.op("BitwiseAnd", graph.op("BitwiseXor", new, old), mask)
    return graph.op("BitwiseXor", old, changed)


def _add(graph: Graph, one: str, other: str) -> str:
    signed = [graph.cast(each, np.int64) for each in (one, other)]
    return graph.cast(graph.op("Add", *signed), np.uint64)


def _rotate(graph: Graph, value: str, bits: int) -> str:
    up = graph.op("BitShift", value, word(bits), direction="LEFT")
    down = graph.op("BitShift", value, word(64 - bits), direction="RIGHT")
    return graph.op("BitwiseOr", up, down)


def _rounds(graph: Graph, v0: str, v1: str, v2: str, v3: str, count: int) -> tuple[str, str, str, str]:
    def xor_rotated(value: str, bits: int, other: str) -> str:
        return graph.op("BitwiseXor", _rotate(graph, value, bits), other)

    for _ in range(count):
        v0, v2 = _add(graph, v0, v1), _add(graph, v2, v3)
        v1, v3 = xor_rotated(v1, 13, v0), xor_rotated(v3, 16, v2)
        v0 = _rotate(graph, v0, 32)
        v2, v0 = _add(graph, v2, v1), _add(graph, v0, v3)
        v1, v3 = xor_rotated(v1, 17, v2), xor_rotated(v3, 21, v0)
        v2 = _rotate(graph, v2, 32)
    return v0, v1, v2, v3
