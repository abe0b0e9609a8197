"""Tables larger than memory: fit the parity step on them, follow them as streams, and score them.

A table is a file (CSV, Parquet, Arrow), a folder of files, a dataset, an iterator of frames, or a frame of
Spark or Dask. `fit_table` and `stream_table` fit a model, `predict_table` and `iter_predictions` score rows,
and `TableProgress` is what `progress=` receives. The modules:

- Public functions: `batch`, `streaming`, `predictions`, `progress`.
- Reading: `sources` opens any table as blocks of rows; `files` reads CSV, Parquet and Arrow files. `quotes`
  refuses CSV files whose quotes join rows. `columns`
  interprets columns of Arrow tables, and `model_inputs` selects those that a model needs.
- Writing: `writing` writes files that appear complete or not at all. `formats` names the formats.
- Clusters: `clusters` passes frames of Spark and Dask to `on_spark` and `on_dask`, which run the functions of
  `partition_tasks` and `partition_predictions` on every partition; `partitions` adds up the results.
- Storage during a fit: `numbers` is what is kept of a row, `sampling` selects a sample of rows, and `spool`
  keeps scores and probabilities on disk. `checkpoints` saves a stream's model and its position in the table;
  `digests` identifies the fit that a checkpoint belongs to.

>>> import tempfile, pathlib, numpy as np, pyarrow, pyarrow.parquet
>>> from evenhand import ParityPostprocessor
>>> from evenhand.tables import fit_table
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
