"""Tables in and out: of any format and size, for the library and for the command line.

- `outofcore` shows what is public: `fit_table` (in `batch`), `stream_table` (in `streaming`), `predict_table`
  and `iter_predictions` (in `predictions`), and `TableProgress` (in `progress`).
- In: `open_source` (in `sources`) gives blocks of rows of whatever is a table; `files` reads CSV, Parquet and
  Arrow for it, and `quotes` refuses CSV files whose quotes join rows; `columns` says what columns of Arrow
  tables mean, `model_inputs` which of them a model takes.
- Out: `writing`, into files that appear whole or not at all. `formats` names the formats of both ways.
- Clusters: `clusters` takes frames of Spark and Dask to `on_spark` and `on_dask`, which run the functions of
  `partition_tasks` and `partition_predictions` on every partition; `partitions` adds their sums up.
- On the way: `numbers` is what is kept of a row, `sampling` which rows are a sample; `spool` keeps scores
  and probabilities on disk; `checkpoints` saves a stream's model and its place in the table, and `digests`
  tells to which fit that belongs.
"""
