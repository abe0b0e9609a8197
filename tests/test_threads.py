"""The compiled loops under threads, forks and fresh processes."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from evenhand._kernels import chunks
from evenhand._kernels.blas import one_blas_thread
from evenhand._kernels.chunks import (
    MAX_CHUNKS,
    SERIAL_WORK,
    chunk_bounds,
    get_num_threads,
    map_each,
    run_chunks,
    set_num_threads,
)
from evenhand._kernels.softmax import LANES
from evenhand.dual.curvature import hessian
from evenhand.dual.objective import evaluate
from evenhand.solvers import Batch, run
from tests.problems import random_multipliers, random_problem

N_ROWS, N_ATOMS = 45_678, 31  # several chunks, the last one ragged, and enough work for threads


@pytest.fixture(autouse=True)
def _restore_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.fixture(scope="module")
def problem():
    assert N_ROWS * N_ATOMS > 3 * SERIAL_WORK
    return random_problem("cdf", n_rows=N_ROWS, n_atoms=N_ATOMS, n_groups=3, beta=100.0)


@pytest.fixture(scope="module")
def multipliers(problem):
    return random_multipliers(problem, 0.1)


def numbers(problem, multipliers):
    now = evaluate(problem, multipliers)
    return now.value, now.violation.tobytes()


@pytest.mark.parametrize("n_threads", [2, 5])
def test_results_are_the_same_bit_for_bit_for_any_number_of_threads(problem, multipliers, n_threads):
    set_num_threads(1)
    serial, serial_hessian = numbers(problem, multipliers), hessian(problem, multipliers).columns
    set_num_threads(n_threads)
    assert numbers(problem, multipliers) == serial
    np.testing.assert_array_equal(hessian(problem, multipliers).columns, serial_hessian)


def test_many_python_threads_may_call_at_once(problem):
    points = [random_multipliers(problem, 0.1, seed) for seed in range(16)]
    serial = [numbers(problem, point) for point in points]
    set_num_threads(3)
    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(lambda point: numbers(problem, point), points)) == serial


def test_the_number_of_threads_may_change_while_others_compute(problem, multipliers):
    expected = numbers(problem, multipliers)
    with ThreadPoolExecutor(2) as callers:
        running = [callers.submit(numbers, problem, multipliers) for _ in range(12)]
        for n_threads in (1, 4, 2, 3, 1, 2):
            set_num_threads(n_threads)
        assert {future.result() for future in running} == {expected}


def _numbers_to_pipe(pipe, problem, multipliers):
    """Compute in a child process, with whatever pool it has, from two threads at once."""
    with ThreadPoolExecutor(2) as callers:
        both = list(callers.map(lambda _: numbers(problem, multipliers), range(2)))
    pipe.send(both)
    pipe.close()


def numbers_in_child(method, problem, multipliers):
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_numbers_to_pipe, args=(sender, problem, multipliers))
    child.start()
    sender.close()
    try:
        assert receiver.poll(120), "the child did not answer"
        return receiver.recv()
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()


@pytest.mark.skipif(
    sys.platform == "darwin" or "fork" not in multiprocessing.get_all_start_methods(),
    reason="fork is not safe here",
)
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_after_the_pool_was_used_computes_the_same(problem, multipliers):
    set_num_threads(2)
    before = numbers(problem, multipliers)
    assert numbers_in_child("fork", problem, multipliers) == [before, before]
    assert numbers(problem, multipliers) == before


def test_a_fresh_process_computes_the_same(problem, multipliers):
    before = numbers(problem, multipliers)
    assert numbers_in_child("spawn", problem, multipliers) == [before, before]


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(start, stop):
        raise RuntimeError(f"at {start}")

    set_num_threads(2)
    with pytest.raises(RuntimeError, match="at 0"):
        run_chunks(fail, N_ROWS, N_ATOMS)


@pytest.mark.parametrize("n_rows", [1, LANES, 8 * LANES, 8 * LANES + 1, 50_000, 1_000_001])
def test_chunks_cover_the_rows_once_in_whole_blocks(n_rows):
    bounds = chunk_bounds(n_rows)
    assert len(bounds) <= MAX_CHUNKS
    assert bounds[0][0] == 0
    assert bounds[-1][1] == n_rows
    for (start, stop), (following, _) in pairwise(bounds):
        assert stop == following
        assert start % LANES == 0
        assert stop % LANES == 0


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_wrong_number_of_threads_is_an_error(wrong):
    with pytest.raises(ValueError, match="positive integer"):
        set_num_threads(wrong)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_its_own_number_afterwards():
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_many_threads_inside_leave_blas_as_it_was():
    before = blas_threads()
    problem = random_problem("cdf", n_rows=200)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: run(Batch(), problem).objective, range(16)))
    assert len(set(answers)) == 1
    assert blas_threads() == before


@pytest.mark.parametrize(
    ("value", "complains"), [("0", False), ("", False), ("3", False), ("-1", True), ("two", True)]
)
def test_no_value_of_the_variable_for_threads_fails_an_import(value, complains):
    code = "import evenhand; print(evenhand.get_num_threads())"
    environment = os.environ | {"EVENHAND_NUM_THREADS": value}
    called = [sys.executable, "-c", code]
    done = subprocess.run(called, env=environment, capture_output=True, text=True, check=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert int(done.stdout) == (3 if value == "3" else cores)
    assert ("EVENHAND_NUM_THREADS must be a positive integer" in done.stderr) == complains


@pytest.mark.parametrize("work", [1, 2 * SERIAL_WORK, 200 * SERIAL_WORK])
def test_tasks_keep_their_order_and_threads_take_small_ones_together(work, monkeypatch):
    set_num_threads(3)
    pool, submitted = chunks._pool.executor(), []
    submit = pool.submit
    monkeypatch.setattr(pool, "submit", lambda *given: (submitted.append(given), submit(*given))[1])
    tasks = [(number,) for number in range(64)]
    assert list(map_each(lambda number: number, tasks, work)) == list(range(64))
    assert len(submitted) == {1: 0, 2 * SERIAL_WORK: 2, 200 * SERIAL_WORK: 64}[work]
