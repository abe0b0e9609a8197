"""Fixtures that every test may use."""

from pathlib import Path

import pytest

from evenhand.datasets import load_communities


@pytest.fixture(scope="session")
def data_home():
    """`data_home=` of the loaders (None: where they look by themselves), or a skip with its reason."""
    try:
        load_communities()
    except FileNotFoundError as error:
        pytest.skip(f"the paper's data sets are not here: {error}")


@pytest.fixture(scope="session")
def project_root():
    return Path(__file__).resolve().parent.parent
