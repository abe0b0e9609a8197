"""200 kills of a stream that saves a checkpoint after every block: nothing is lost, the model is the same.

Each life is a process that resumes from the checkpoint and is killed (SIGKILL) after a random time, which
falls anywhere: while it reads, solves, writes, syncs or renames. After each kill the checkpoint must open,
and stand no earlier than before. When a life reaches the end of the table, its file must be that of a run
that nothing stopped, byte for byte, and the next one starts from nothing. Half of the kills are aimed at
moments when a file is being written beside the checkpoint.
"""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import evenhand as eh
from benchmarks import _support as support
from evenhand.tables import stream_table

N_KILLS, N_ROWS, BLOCK = 200, 60_000, 1000
NAMES = {"scores": "score", "group_proba": ["a", "b", "c"]}


def stream(table: Path, checkpoint: Path) -> None:
    model = eh.ParityPostprocessor(epsilon=0.02, random_state=1)
    options = {"checkpoint": checkpoint, "every_rows": BLOCK, "block_rows": BLOCK, "resume": True}
    stream_table(model, table, **options, **NAMES)


def live(table: Path, checkpoint: Path, wait: Callable[[multiprocessing.Process], None]) -> int:
    """Exit code of one life; `wait` returns when it is to be killed, or has ended."""
    process = multiprocessing.get_context("fork").Process(target=stream, args=(table, checkpoint))
    process.start()
    wait(process)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode


def while_writing(folder: Path, rng: np.random.Generator) -> Callable[[multiprocessing.Process], None]:
    """Wait for a file that is being written, some saves after the start."""
    n_saves = int(rng.integers(1, 15))

    def wait(process: multiprocessing.Process) -> None:
        seen: set[str] = set(os.listdir(folder))
        left = n_saves
        while process.is_alive() and left:
            new = {name for name in os.listdir(folder) if name.endswith(".tmp")} - seen
            seen |= new
            left -= bool(new)

    return wait


def after_a_while(longest: float, rng: np.random.Generator) -> Callable[[multiprocessing.Process], None]:
    seconds = float(rng.uniform(0.0, longest))
    return lambda process: process.join(seconds)


def write_rows(table: Path) -> None:
    population = eh.datasets.make_population(N_ROWS, 3, random_state=0)
    columns = {"score": population.scores, **dict(zip("abc", population.group_proba.T, strict=True))}
    pd.DataFrame(columns).to_parquet(table, row_group_size=7000)


def find_place(checkpoint: Path, counts: dict[str, int]) -> int:
    """Rows that the checkpoint has seen; one that does not open counts as corrupt."""
    try:
        return eh.load(checkpoint).table_position_ if checkpoint.exists() else 0
    except ValueError:
        counts["corrupt"] += 1
        checkpoint.unlink()
        return 0


def kill_often(
    table: Path, checkpoint: Path, expected: bytes, longest: float, n_kills: int
) -> dict[str, int]:
    """Lives and kills, until there were `n_kills` and the last life has reached the end."""
    rng, folder, reached = np.random.default_rng(0), checkpoint.parent, 0
    counts = dict.fromkeys(["kills", "in a write", "ends", "lost", "corrupt", "different ends"], 0)
    while counts["kills"] < n_kills or reached:
        wait = while_writing(folder, rng) if counts["kills"] % 2 else after_a_while(longest / 3, rng)
        if counts["kills"] >= n_kills:
            wait = multiprocessing.Process.join
        code = live(table, checkpoint, wait)
        counts["kills"] += code == -signal.SIGKILL
        counts["in a write"] += any(path.suffix == ".tmp" for path in folder.iterdir())
        place = find_place(checkpoint, counts)
        counts["lost"] += place < reached
        reached = place
        if code == 0:
            counts["ends"] += 1
            counts["different ends"] += checkpoint.read_bytes() != expected
            checkpoint.unlink()
            reached = 0
    return counts


def main(n_kills: int = N_KILLS) -> None:
    """Kill and resume; print how many kills, how many ends, and what was lost."""
    with tempfile.TemporaryDirectory(prefix="evenhand-kills-") as name:
        table, checkpoint = Path(name, "rows.parquet"), Path(name, "stream.evenhand")
        write_rows(table)
        begin = perf_counter()
        stream(table, checkpoint)
        longest = perf_counter() - begin
        expected = checkpoint.read_bytes()
        checkpoint.unlink()
        counts = kill_often(table, checkpoint, expected, longest, n_kills)
    support.show_table(["", ""], [[what, count] for what, count in counts.items()])
    print(support.verdict(not (counts["lost"] or counts["corrupt"] or counts["different ends"])))


if __name__ == "__main__":
    main()
