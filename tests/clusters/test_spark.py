"""The parity step on a Spark cluster of two executors, each a process of its own (`make test-spark`)."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="make test-spark has an environment with Spark")

import pyspark
from pyspark.sql import SparkSession

from evenhand.tables import fit_table
from tests.clusters.contract import FRAME, SIZES, SMOOTH, ClusterContract, names_of_pages
from tests.page_lines import silent_blocks
from tests.partitioned import NAMES, make_step, pieces

pytestmark = pytest.mark.filterwarnings("default")  # what Spark warns of is its own


class OnSpark:
    generations = 2  # a Python worker, the daemon that forked it, the executor
    settings = (("tol", 1e-11),)

    def __init__(self, session):
        self.session = session

    def frame(self, chunks):
        """A frame with these partitions: each is made on a worker from a chunk that travels there."""
        parts = [chunk.reset_index(drop=True) for chunk in chunks]
        schema = self.session.createDataFrame(max(parts, key=len)[:1]).schema

        def make(batches):
            import pyarrow as pa
            from pyspark import TaskContext

            for _ in batches:
                pass
            part = parts[TaskContext.get().partitionId()]
            yield from pa.Table.from_pandas(part, preserve_index=False).to_batches()

        return self.session.range(0, len(parts), numPartitions=len(parts)).mapInArrow(make, schema)

    def shuffled(self, frame, n_partitions):
        return frame.repartition(n_partitions, "who")

    def collect(self, frame):
        return frame.toPandas()

    def workers(self):
        """Process ids of the executors."""

        def executor(batches):
            import pyarrow as pa

            from tests.partitioned import ancestor

            for _ in batches:
                pass
            yield pa.RecordBatch.from_pydict({"pid": [ancestor(2)]})

        many = self.session.range(0, 8, numPartitions=8)
        return {row["pid"] for row in many.mapInArrow(executor, "pid long").collect()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    root = Path(__file__).resolve().parents[2]
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = str(tmp_path_factory.mktemp("spark"))
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", f"{root}/src{os.pathsep}{root}")
        .config("spark.locality.wait", "0s")
        .config("spark.task.maxFailures", "2")  # a kill is one; what fails for good need not fail four times
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield OnSpark(session)
    finally:
        session.stop()


class TestSpark(ClusterContract):
    def test_what_was_cached_is_forgotten_at_the_end(self, cluster, small_memory):
        fit_table(make_step(**SMOOTH), cluster.frame(pieces(FRAME, SIZES["even"])), **NAMES)
        assert cluster.session.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_the_blocks_of_the_pages_run(cluster, project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_of_pages() | {"spark": cluster.session}
    pages = (
        project_root / "docs" / page
        for page in ("how-to/clusters.md", "tutorials/big-tables-and-clusters.md")
    )
    for block in (block for page in pages for block in silent_blocks(page) if "spark" in block):
        exec(block.replace("s3://.../", f"{tmp_path}/").replace('"people/"', f'"{tmp_path}/people"'), names)
        assert names["scored"].count() == 600
    assert cluster.session.read.parquet(f"{tmp_path}/scored").columns == ["id", "region", "prediction"]
