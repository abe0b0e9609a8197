"""Fixtures that every test may use."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from evenhand.datasets import load_communities
from tests.cli_support import Outcome

# The same examples every time, and no deadlines: a test that fails, fails everywhere, busy machines included.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def data_home():
    """`data_home=` of the loaders (None: where they look by themselves), or a skip with its reason."""
    try:
        load_communities()
    except FileNotFoundError as error:
        pytest.skip(f"the paper's data sets are not here: {error}")


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Ctrl-C interrupts, even in a run that a shell started in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def project_root():
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def run(capfd):
    """Run a command of the command line in this process, and return how it ended."""
    from evenhand.cli import main

    def call(*arguments):
        capfd.readouterr()
        code = main([str(each) for each in arguments])
        return Outcome(int(code), *capfd.readouterr())

    return call
