"""The code stays within `tests/budgets.json`, and the budgets follow the code where it shrinks."""

import copy
import json

import pytest

from tests import structure

pytest.importorskip("grimp")  # of import-linter, which reads the imports


@pytest.fixture(scope="module")
def measured():
    return structure.measure()


def test_the_code_agrees_with_its_budgets(measured):
    differences = structure.compare(json.loads(structure.BUDGETS.read_text()), measured)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        (-1, "raise the budget and give the reason in the commit message"),
        (2, None),
        (100, "Lower the budget to"),
    ],
)
@pytest.mark.parametrize("measure", structure.SLACK)
def test_a_budget_equals_the_code_up_to_a_slack(measured, measure, more, advice):
    budgets = copy.deepcopy(measured)
    budgets["packages"]["metrics"][measure] += more
    differences = structure.compare(budgets, measured)
    if advice is None:
        assert differences == []
    else:
        (message,) = differences
        actual = measured["packages"]["metrics"][measure]
        assert message.startswith(f"metrics: {actual} {measure}, the budget is {actual + more}.")
        assert advice in message


def test_exceptions_may_only_shrink(measured):
    rule = "classes that inherit from a concrete class"
    first, *others = measured["exceptions"][rule]
    budgets = measured | {"exceptions": measured["exceptions"] | {rule: ["evenhand.gone", *others]}}
    new, gone = structure.compare(budgets, measured)
    assert new.startswith(f"{first} is one of the {rule}. Exceptions may only shrink")
    assert gone.startswith(f"evenhand.gone is no longer one of the {rule}.")
