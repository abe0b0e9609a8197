"""Values in model files: each comes back with its type and its bits, or is refused by name."""

import datetime
import json
import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from evenhand.modelfile.codec import Decoder, Encoder
from evenhand.solvers import Status


def round_trip(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    return Decoder(encoder.members, {}).decode(json.loads(text), "value")


def assert_identical(value, again):
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert (again.dtype, again.shape) == (value.dtype, value.shape)
        if value.dtype == object:
            for left, right in zip(value.ravel(), again.ravel(), strict=True):
                assert_identical(left, right)
        else:
            assert again.tobytes() == value.tobytes()
            assert again.flags.f_contiguous == value.copy(order="A").flags.f_contiguous
    elif isinstance(value, list | tuple):
        assert len(again) == len(value)
        for left, right in zip(value, again, strict=True):
            assert_identical(left, right)
    elif isinstance(value, dict):
        assert_identical(list(value.items()), list(again.items()))
    elif isinstance(value, float | np.generic):
        assert np.asarray(again).tobytes() == np.asarray(value).tobytes()
    else:
        assert again == value


SCALARS = st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | st.floats() | st.text()
LABELS = (
    SCALARS
    | st.binary()
    | st.uuids()
    | st.dates()
    | st.datetimes(allow_imaginary=False).map(lambda when: when.replace(fold=0))
)
NESTED = st.recursive(
    LABELS,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=8,
)


@given(NESTED)
@settings(max_examples=200, deadline=None)
def test_any_value_of_the_list_comes_back_identical(value):
    assert_identical(value, round_trip(value))


def objects(*items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, -0.0], [np.nan, np.inf]]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.array(3.0),
        np.empty((0, 4), np.float32),
        np.array([True, False]),
        np.array(["a", "ääkkönen", ""]),
        np.array([b"a", b"bc"]),
        np.array([1 + 2j], ">c16"),
        np.array(["2024-02-29"], "M8[D]"),
        objects("a", 1, None, (1, "x"), 2.5, uuid.UUID(int=7), datetime.date(2024, 2, 29)),
        objects("a", "b", "c", "d").reshape(2, 2),
        objects(np.str_("x"), np.int8(-1), np.float64(0.1)),
        *(np.float32(0.1), np.uint64(2**64 - 1), np.bool_(True), np.str_(""), np.str_("é"), np.bytes_(b"")),
        *(np.datetime64("2024-02-29"), np.longdouble(1) / 3, np.complex64(1j)),
        {(1, "a"): [float("nan")], None: b"\x00", 2**100: {}},
        np.frombuffer(bytes.fromhex("010000000000f8ff"), "<f8")[0].item(),
        "\ud800 a lone surrogate",
        Status.STALLED,
        KFold(3, shuffle=True, random_state=1),
    ],
    ids=repr,
)
def test_a_value_comes_back_identical(value):
    again = round_trip(value)
    if isinstance(value, KFold):
        assert repr(again) == repr(value)
    else:
        assert_identical(value, again)


@pytest.mark.parametrize(
    "value",
    [
        print,
        lambda: None,
        {1, 2},
        range(3),
        np.zeros(2, "f8,i4"),
        np.ma.array([1]),
        pd.Timestamp("2024-01-01"),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        type("Str", (str,), {})("a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_on_the_list_is_refused_when_saving(value):
    with pytest.raises(TypeError, match="cannot be saved"):
        Encoder().encode(value, "value")


def test_a_list_that_holds_itself_is_refused():
    value = []
    value += [value, value]
    with pytest.raises(TypeError, match="holds itself"):
        Encoder().encode(value, "value")
