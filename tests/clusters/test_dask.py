"""The parity step on a Dask cluster of two worker processes (`make test-dask`)."""

import os

import pytest

pytest.importorskip("dask.dataframe", reason="make test-dask has an environment with Dask")
pytest.importorskip("distributed", reason="make test-dask has an environment with Dask")

import dask
import dask.dataframe as dd
import distributed

from evenhand.tables import fit_table, on_dask
from tests.clusters.contract import FRAME, SIZES, SMOOTH, ClusterContract, names_of_pages
from tests.page_lines import silent_blocks
from tests.partitioned import GROUPS, NAMES, make_step, pieces

pytestmark = pytest.mark.filterwarnings("default")  # what Dask warns of is its own


class OnDask:
    generations = 0  # a worker of Dask's is a Python process
    settings = ()

    def __init__(self, client):
        self.client = client

    def frame(self, chunks):
        return dd.from_delayed([dask.delayed(chunk) for chunk in chunks], meta=chunks[0][:0])

    def shuffled(self, frame, n_partitions):
        return frame.repartition(npartitions=n_partitions)  # Dask frames keep their order

    def collect(self, frame):
        return frame.compute()

    def workers(self):
        return set(self.client.run(os.getpid).values())


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as local, distributed.Client(local) as client:
        yield OnDask(client)


class TestDask(ClusterContract):
    def test_the_model_is_that_of_fit_bit_for_bit(self, cluster):
        expected = make_step().fit(FRAME["score"], FRAME[GROUPS])
        found = fit_table(make_step(), cluster.frame(pieces(FRAME, SIZES["empty and single"])), **NAMES)
        assert found.multipliers_.tobytes() == expected.multipliers_.tobytes()

    def test_the_model_on_workers_is_the_single_machines(self, cluster, small_memory):
        expected = fit_table(make_step(**SMOOTH), FRAME, **NAMES)
        parts = pieces(FRAME, SIZES["empty and single"])
        found = fit_table(make_step(**SMOOTH), cluster.frame(parts), **NAMES)
        assert abs(found.tilt_ - expected.tilt_).max() <= 1e-8

    def test_a_column_that_one_partition_lacks_is_named_with_it(self, cluster):
        chunks = pieces(FRAME, SIZES["even"])
        chunks[1] = chunks[1].drop(columns="b")
        with pytest.raises(ValueError, match=r"^Partition 1: .*b"):
            fit_table(make_step(), cluster.frame(chunks), **NAMES)


def test_without_a_cluster_the_threads_of_this_process_do():
    frame = dd.from_pandas(FRAME, npartitions=3)
    with dask.config.set(scheduler="threads"):
        found = fit_table(make_step(), frame, **NAMES)
    assert (
        found.multipliers_.tobytes() == make_step().fit(FRAME["score"], FRAME[GROUPS]).multipliers_.tobytes()
    )


def test_only_the_columns_that_are_needed_are_read(tmp_path, monkeypatch):
    path, read = tmp_path / "rows.parquet", []
    FRAME.to_parquet(path)
    original = on_dask._score

    def spy(scorer, part, number):
        read.append(list(part.columns))
        return original(scorer, part, number)

    monkeypatch.setattr(on_dask, "_score", spy)
    with dask.config.set(scheduler="synchronous"):
        fit_table(make_step(), dd.read_parquet(path), **NAMES)
    assert read == [["score", *GROUPS]]


def test_the_block_of_the_tutorial_runs(cluster, project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = silent_blocks(project_root / "docs" / "tutorials" / "big-tables-and-clusters.md")
    names = names_of_pages()
    exec(next(block for block in blocks if "dask" in block), names)
    assert len(names["scored"].compute()) == 600
