"""What the tests of ONNX graphs share: a graph of a model, run by ONNX Runtime."""

import numpy as np
import pandas as pd

import evenhand as eh


def open_graph(path):
    import onnxruntime  # here, since doctests look into this file where it is not installed

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


class Graphs:
    """Exports into a folder, and runs what was written."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, model, inputs, output, **settings):
        """Answers of the graph by the names of its outputs."""
        path = self.folder / "model.onnx"
        eh.export_onnx(model, path, output, **settings)
        session = open_graph(path)
        return dict(
            zip([each.name for each in session.get_outputs()], session.run(None, inputs), strict=True)
        )


def column_inputs(frame):
    """The inputs of a graph of raw columns, one for each; empty text is what is missing."""
    inputs = {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(np.float64)
        else:
            values = np.array(["" if pd.isna(cell) else cell for cell in column], object)
        inputs[name] = values.reshape(-1, 1)
    return inputs
