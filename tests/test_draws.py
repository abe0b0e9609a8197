"""Uniform numbers of rows: the keyed hash, and that a row keeps its draw."""

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._kernels.hashing import siphash_into
from evenhand.data.draws import (
    key_from,
    uniforms_from_generator,
    uniforms_from_ids,
    uniforms_from_rows,
)

KEY = key_from(5)
MASK = 2**64 - 1

# outputs of the reference implementation's table for key 00..0f and messages 00, 01, ... of these lengths
PUBLISHED = {0: 0x726FDB47DD0E0E31, 1: 0x74F839C593DC67FD, 8: 0x93F5F5799A932462, 15: 0xA129CA6149BE45E5}


def siphash(message, key):
    """SipHash-2-4 on Python integers, from the authors' paper."""
    k = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")]
    names = [b"somepseu", b"dorandom", b"lygenera", b"tedbytes"]
    v = [k[i % 2] ^ int.from_bytes(name, "big") for i, name in enumerate(names)]

    def rotate(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & MASK

    def half_round(a, b, c, d, s, t):
        v[a] = (v[a] + v[b]) & MASK
        v[c] = (v[c] + v[d]) & MASK
        v[b] = rotate(v[b], s) ^ v[a]
        v[d] = rotate(v[d], t) ^ v[c]
        v[a] = rotate(v[a], 32)

    def rounds(count):
        for _ in range(count):
            half_round(0, 1, 2, 3, 13, 16)
            half_round(2, 1, 0, 3, 17, 21)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def compiled_siphash(messages, key):
    words = np.frombuffer(key, "<u8").astype(np.uint64)
    data = np.frombuffer(b"".join(messages) or b"\0", np.uint8)
    offsets = np.cumsum([0, *map(len, messages)])
    out = np.empty(len(messages), np.uint64)
    siphash_into(out, data, offsets, words[0], words[1], 0, len(messages))
    return [int(value) for value in out]


def test_siphash_gives_the_published_test_vectors():
    messages = [bytes(range(length)) for length in PUBLISHED]
    assert compiled_siphash(messages, bytes(range(16))) == list(PUBLISHED.values())


def test_siphash_agrees_with_plain_integers_on_every_length_and_random_keys():
    rng = np.random.default_rng(0)
    key = rng.bytes(16)
    messages = [rng.bytes(length) for length in [*range(70), 255, 256, 300]]
    assert compiled_siphash(messages, key) == [siphash(message, key) for message in messages]


def rows(n_rows=400, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, n_rows), rng.dirichlet(np.ones(n_groups), n_rows)


def test_uniforms_of_rows_look_uniform_and_stay_inside_the_open_interval():
    uniforms = uniforms_from_rows(*rows(100_000), KEY)
    assert stats.kstest(uniforms, "uniform").pvalue > 1e-3
    assert uniforms.min() > 0
    assert uniforms.max() < 1


def test_the_extreme_hashes_stay_inside_the_open_interval():
    from evenhand.data.draws import _to_uniforms

    low, high = _to_uniforms(np.array([0, MASK], np.uint64))
    assert 0 < low < high < 1


def test_the_draw_of_a_row_does_not_depend_on_its_batch_its_order_or_the_threads():
    scores, proba = rows(5000)
    together = uniforms_from_rows(scores, proba, KEY)
    alone = [uniforms_from_rows(scores[i : i + 1], proba[i : i + 1], KEY)[0] for i in range(50)]
    order = np.random.default_rng(1).permutation(5000)
    threads = get_num_threads()
    try:
        set_num_threads(1)
        serial = uniforms_from_rows(scores, proba, KEY)
    finally:
        set_num_threads(threads)
    assert np.array_equal(together[:50], alone)
    assert np.array_equal(together[order], uniforms_from_rows(scores[order], proba[order], KEY))
    assert np.array_equal(together, serial)


def test_noise_in_the_last_bits_leaves_the_draw_alone():
    scores, proba = rows(20_000)
    noisy = np.nextafter(scores, 2), np.nextafter(proba, 0)
    assert np.array_equal(uniforms_from_rows(scores, proba, KEY), uniforms_from_rows(*noisy, KEY))


def test_rows_that_differ_in_one_value_have_draws_that_do_not_go_together():
    scores, proba = rows(20_000)
    first = uniforms_from_rows(scores, proba, KEY)
    second = uniforms_from_rows(scores + 1e-4, proba, KEY)
    other_key = uniforms_from_rows(scores, proba, key_from(6))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(first, other_key)[0, 1]) < 0.03


def test_negative_zero_is_zero():
    proba = np.array([[0.5, 0.5]])
    assert uniforms_from_rows(np.array([0.0]), proba, KEY) == uniforms_from_rows(
        np.array([-1e-12]), proba, KEY
    )


INTEGERS = [3, 1, 2**40, -7]
SMALL = [3, 1, 100, 7]
WORDS = ["ada", "Grace", "Žofie", ""]

SAME_IDS = {
    "integers": (
        INTEGERS,
        [
            tuple(INTEGERS),
            np.array(INTEGERS),
            np.array(INTEGERS, dtype=object),
            np.array(INTEGERS, dtype=float),
            np.array(INTEGERS, dtype=">i8"),
            pd.Series(INTEGERS),
            pd.Series(INTEGERS, dtype="Int64"),
            pd.Index(INTEGERS),
            pl.Series(INTEGERS),
        ],
    ),
    "small integers": (
        SMALL,
        [np.array(SMALL, dtype=dtype) for dtype in (np.int8, np.uint8, np.int32, np.uint64, np.float32)],
    ),
    "large integers": (
        [2**63, 5],
        [np.array([2**63, 5], dtype=np.uint64), pl.Series([2**63, 5], dtype=pl.UInt64)],
    ),
    "words": (
        WORDS,
        [
            np.array(WORDS),
            np.array(WORDS, dtype=object),
            pd.Series(WORDS),
            pd.Series(WORDS, dtype="category"),
            pd.Index(WORDS),
            pl.Series(WORDS),
            pl.Series(WORDS, dtype=pl.Categorical),
        ],
    ),
    "bytes": ([b"ab", b"c"], [np.array([b"ab", b"c"]), pl.Series([b"ab", b"c"])]),
    "halves": ([0.5, 2.0], [np.array([0.5, 2.0]), np.array([0.5, 2.0], dtype=np.float32), [0.5, 2]]),
    "uuids": ([uuid.UUID(int=9)], [[str(uuid.UUID(int=9))]]),
}


@pytest.mark.parametrize("case", SAME_IDS)
def test_an_id_keeps_its_draw_in_any_container(case):
    plain, others = SAME_IDS[case]
    expected = uniforms_from_ids(plain, KEY)
    for other in others:
        assert np.array_equal(uniforms_from_ids(other, KEY), expected), other


def test_ids_of_other_types_are_other_people():
    uniforms = uniforms_from_ids([1, "1", b"1", 1.5, "", b"", 2**64, -1], KEY)
    assert len(set(uniforms)) == 8


def test_ids_look_uniform_though_they_are_consecutive():
    assert stats.kstest(uniforms_from_ids(np.arange(100_000), KEY), "uniform").pvalue > 1e-3


BAD_IDS = {
    "missing text": ["a", None],
    "missing number": np.array([1.0, np.nan]),
    "missing in pandas": pd.Series([1, None], dtype="Int64"),
    "missing in polars": pl.Series(["a", None]),
    "one string": "abc",
    "a number": 3,
    "two columns": np.ones((2, 2)),
    "a frame": pd.DataFrame({"a": [1, 2]}),
    "dates": pd.Series(pd.to_datetime(["2020-01-01"])),
    "tuples": [(1, 2), (3, 4)],
}


@pytest.mark.parametrize("case", BAD_IDS)
def test_ids_that_name_nobody_are_refused(case):
    with pytest.raises(ValueError, match="ids"):
        uniforms_from_ids(BAD_IDS[case], KEY)


def test_the_key_follows_the_random_state():
    assert key_from(None).tobytes() == b"evenhand draws 1"
    assert np.array_equal(key_from(3), key_from(np.int32(3)))
    assert not np.array_equal(key_from(3), key_from(4))
    for make in (np.random.default_rng, np.random.RandomState):
        assert np.array_equal(key_from(make(3)), key_from(make(3)))
        generator = make(3)
        assert not np.array_equal(key_from(generator), key_from(generator))


def test_fresh_uniforms_follow_their_generator():
    assert np.array_equal(uniforms_from_generator(5, 1), uniforms_from_generator(5, np.random.default_rng(1)))
    generator = np.random.default_rng(1)
    assert not np.array_equal(uniforms_from_generator(5, generator), uniforms_from_generator(5, generator))
    legacy = uniforms_from_generator(100_000, np.random.RandomState(0))
    assert stats.kstest(legacy, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("bad", [-1, "seed", 1.5])
def test_a_random_state_of_the_wrong_kind_is_refused(bad):
    with pytest.raises(ValueError, match="random_state"):
        key_from(bad)
    with pytest.raises(ValueError, match="random_state"):
        uniforms_from_generator(3, bad)
