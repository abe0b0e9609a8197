"""A fitted model as an ONNX graph, for places without Python.

| module | what it does |
| --- | --- |
| `exporting` | `export_onnx`: what is asked for, the outputs, the facts, the file |
| `graph` | nodes and constants in the making |
| `policy`, `maps`, `hashing` | the parity step, the calibrations, the draws |
| `whole` | an estimator: its models, groups and strata |
| `tables`, `models`, `trees`, `boosters`, `foreign` | raw columns, and the models behind them |
"""

from evenhand.onnx_export.exporting import export_onnx

__all__ = ["export_onnx"]
