"""The hash of draws inside a graph, bit for bit: floats as NumPy views them, rows as `predict` does."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="make test-onnx has an environment with ONNX Runtime")

import onnxruntime

from evenhand.data.draws import key_from, uniforms_from_ids, uniforms_from_table
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.hashing import alphabet, float_bits, hash_text, uniforms
from evenhand.onnx_export.tables import NUMBER, TEXT, input_table

KEY = key_from(7)


def answer(graph, inputs):
    data = graph.model("test", {}).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, inputs)[
        0
    ]


def test_bits_of_floats_are_those_of_numpy():
    rng = np.random.default_rng(0)
    powers = 2.0 ** np.arange(-1074, 1024)
    with np.errstate(invalid="ignore"):
        values = np.concatenate(
            [
                rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64),
                [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(float).max],
                powers,
                -powers,
                np.nextafter(powers, 0.0),
                np.nextafter(powers, np.inf),
            ]
        )
        wanted = values + 0.0
    wanted[np.isnan(wanted)] = np.nan
    graph = Graph()
    graph.add_output("bits", float_bits(graph, graph.add_input("x", np.float64, "n")), np.uint64, "n")
    np.testing.assert_array_equal(answer(graph, {"x": values}), wanted.view(np.uint64))


def test_every_character_has_its_bytes():
    characters = [character for character in alphabet() if character]
    ids = np.array(["".join(characters[start : start + 9]) for start in range(0, len(characters), 9)], object)
    graph = Graph()
    found = uniforms(graph, hash_text(graph, graph.add_input("ids", np.str_, "n"), KEY))
    graph.add_output("uniform", found, np.float64, "n")
    np.testing.assert_array_equal(answer(graph, {"ids": ids}), uniforms_from_ids(ids, KEY))
    for few in (["", "a"], [""], ["1234567", "12345678", "123456789012345"]):
        ids = np.array(few, object)
        np.testing.assert_array_equal(answer(graph, {"ids": ids}), uniforms_from_ids(ids, KEY))


def test_a_character_without_a_meaning_is_refused_and_not_hashed_as_another():
    graph = Graph()
    found = uniforms(graph, hash_text(graph, graph.add_input("ids", np.str_, "n"), KEY))
    graph.add_output("uniform", found, np.float64, "n")
    with pytest.raises(Exception, match="out of data bounds"):
        answer(graph, {"ids": np.array(["a", "\U000e0fff"], object)})


def test_rows_of_numbers_and_text_are_hashed_as_by_predict():
    rng, n_rows = np.random.default_rng(1), 5000
    numbers = rng.choice([0.0, -0.0, np.nan, 1.0, np.inf, 5e-324, -7.25], (n_rows, 2))
    text = rng.choice(["", "a", "Çeşme", "a long name of some place"], n_rows).astype(object)
    cells = np.empty((n_rows, 3), object)
    cells[:, [0, 2]], cells[:, 1] = numbers, [word or None for word in text]
    graph = Graph()
    table = input_table(graph, ["a", "b", "c"], [NUMBER, TEXT, NUMBER])
    graph.add_output("uniform", uniforms(graph, table.hashes(KEY)), np.float64, "n")
    given = {"a": numbers[:, :1], "b": text[:, None], "c": numbers[:, 1:]}
    np.testing.assert_array_equal(answer(graph, given), uniforms_from_table(cells, KEY))
