"""Tables bigger than memory: fit the parity step on them, follow them as streams, score them.

>>> import tempfile, pathlib, numpy as np, pyarrow, pyarrow.parquet
>>> from evenhand import ParityPostprocessor
>>> from evenhand.tables.outofcore import fit_table
>>> p = np.tile([0.2, 0.7], 500)
>>> table = pyarrow.table({"score": np.linspace(0, 1, 1000), "a": p, "b": 1 - p})
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "rows.parquet")
...     pyarrow.parquet.write_table(table, path)
...     step = fit_table(ParityPostprocessor(epsilon=0.1), path, scores="score", group_proba=["a", "b"])
>>> step.groups_.tolist()
['a', 'b']
"""

from evenhand.tables.batch import fit_table
from evenhand.tables.predictions import iter_predictions, predict_table
from evenhand.tables.progress import TableProgress
from evenhand.tables.streaming import stream_table

__all__ = ["TableProgress", "fit_table", "iter_predictions", "predict_table", "stream_table"]
