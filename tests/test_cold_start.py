"""The first minutes after an installation: what is loaded, what is compiled, and what is said of it."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from evenhand._kernels.compiling import MESSAGE, Announcer
from evenhand.cli.commands import warm_up

HEAVY = "import sys, evenhand; print(*({'numba', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)), 'end')"
PUBLIC_MODULES = """
import sys, evenhand.costs, evenhand.parity
print([name for name in ("numba", "evenhand.solvers", "evenhand.estimators") if name in sys.modules])
"""
WRONG = """
import evenhand
try:
    evenhand.nothing
except AttributeError as error:
    print(error)
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_the_import_alone_loads_nothing_heavy_and_names_come_when_asked_for():
    assert python(HEAVY).stdout.strip() == "end"
    loaded = python("import evenhand; print([getattr(evenhand, name) is None for name in evenhand.__all__])")
    assert "True" not in loaded.stdout
    wrong = python(WRONG)
    assert wrong.stdout.strip() == "module 'evenhand' has no attribute 'nothing'"


def test_importing_costs_and_notions_loads_neither_estimators_nor_compiled_loops():
    assert python(PUBLIC_MODULES).stdout.strip() == "[]"


def test_the_first_compilation_is_told_once_and_only_to_people(capsys, monkeypatch, caplog):
    kernel = SimpleNamespace(py_func=Announcer.on_end)  # a function of a module of evenhand
    started = SimpleNamespace(data={"dispatcher": kernel})
    caplog.set_level("INFO", logger="evenhand")
    Announcer().on_start(started)
    assert capsys.readouterr().err == ""
    assert MESSAGE in caplog.text
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    announcer = Announcer()
    announcer.on_start(started)
    announcer.on_start(started)
    assert capsys.readouterr().err == f"{MESSAGE}\n"


@pytest.mark.filterwarnings("ignore")
def test_warm_up_calls_every_loop_that_users_call():
    warm_up.use_everything()
    idle = {kernel.py_func.__name__ for kernel in warm_up._kernels() if not kernel.signatures}
    parts = {"softmax_block_into", "workspace", "cut_into"}  # compiled into those that call them
    assert {name for name in idle if not name.startswith("_")} <= {"siphash_sparse_into", *parts}
    called = {"_windows_into", "_add_blocks_into", "_factors_into", "_spread_into", "_lowest_of_atom_into"}
    assert not called & idle


@pytest.mark.slow
def test_warm_up_leaves_nothing_to_compile(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "evenhand", "warm-up", "--json"],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, **environment},
            ).stdout
        )
        for _ in range(2)
    )
    assert first["compiled"] > 5
    assert second["compiled"] == 0
    assert first["cache"][0].startswith(str(tmp_path))


LOOP = """
from evenhand._kernels.compiling import njit

@njit(cache=True)
def twice(number):
    return 2 * number
"""
CALL = """
import resource, tempfile, warnings
warnings.simplefilter("always")
{before}
from loop import twice
{after}
print(twice(21))
"""
NO_FOLDER = """
def refuse(dir=None):
    raise PermissionError(13, "Permission denied", dir)
tempfile.TemporaryFile = refuse
"""
NO_SPACE = "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
NOBODY = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
NOBODY += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # Python may be in root's home


@pytest.fixture
def call(tmp_path):
    """Call a compiled loop in a process of its own; how often its cache is complained of there."""
    (tmp_path / "loop.py").write_text(LOOP)

    def run(before="", after="", prefix=(), cache="cache"):
        code = CALL.format(before=before, after=after)
        paths = [str(tmp_path), *sys.path]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}
        if cache is not None:
            environment["NUMBA_CACHE_DIR"] = str(tmp_path / cache)
        called = [*prefix, sys.executable, "-B", "-c", code]
        done = subprocess.run(
            called, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
        return done.stderr.count("CacheWarning: Compiled loops cannot be kept")

    return run


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_told_of_once_and_mended(suffix, call, tmp_path):
    assert call() == 0
    (file,) = tmp_path.rglob(f"*.{suffix}")
    file.write_bytes(file.read_bytes()[:50] + b"damage")
    assert [call(), call()] == [1, 0]


@pytest.mark.parametrize(("before", "after"), [(NO_FOLDER, ""), ("", NO_SPACE)], ids=["folder", "space"])
def test_without_a_folder_or_space_for_the_cache_loops_are_compiled_all_the_same(before, after, call):
    assert call(before, after) == 1


@pytest.mark.skipif(
    shutil.which("setpriv") is None or subprocess.run([*NOBODY, "true"], check=False).returncode != 0,
    reason="only root can be another user",
)
def test_another_user_without_a_home_who_may_write_nothing_can_run_it(call, tmp_path):
    (tmp_path / "__pycache__").mkdir()
    tmp_path.chmod(0o777)  # where a home of nobody would be made, if one were
    assert call(prefix=NOBODY, cache=None) == 1
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    "called", [["-c", "from evenhand import ParityRegressor"], ["-m", "evenhand", "info", "x"]]
)
def test_without_a_compiler_nothing_runs_and_the_message_says_what_to_unset(called):
    done = subprocess.run(
        [sys.executable, *called],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        check=False,
    )
    assert done.returncode != 0
    assert "Unset the environment variable NUMBA_DISABLE_JIT" in done.stderr
    assert ("Traceback" in done.stderr) == (called[0] == "-c")
