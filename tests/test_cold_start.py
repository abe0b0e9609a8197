"""The first minutes after an installation: what is loaded, what is compiled, and what is said of it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from evenhand._kernels.compiling import MESSAGE, Announcer
from evenhand.cli.commands import warm_up

HEAVY = "import sys, evenhand; print(*({'numba', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)), 'end')"
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
