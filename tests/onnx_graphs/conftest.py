"""Fixtures of the tests of ONNX graphs, which are skipped where ONNX Runtime is not installed."""

import pytest


@pytest.fixture
def graphs(tmp_path):
    from tests.onnx_graphs.graphs import Graphs

    return Graphs(tmp_path)
