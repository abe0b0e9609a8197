"""The script that goes through the first hour of a new user, line by line."""

import pytest

pytest.importorskip("matplotlib", reason="the script draws")
pytest.importorskip("typer", reason="the script runs the command line")
from demos import first_hour

SLOW = {5, 15}  # much data, and a process of its own with nothing compiled


@pytest.mark.parametrize("number", [number for number in first_hour.LINES if number not in SLOW])
def test_a_line_of_the_first_hour_holds(number, capsys):
    assert first_hour.main([number]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(SLOW))
def test_so_does_one_that_takes_long(number, capsys):
    assert first_hour.main([number]) == 0, capsys.readouterr().out


def test_a_line_that_does_not_hold_is_named_and_the_others_go_on(monkeypatch, capsys):
    def broken():
        """A line that breaks."""
        raise ValueError("no such thing")

    monkeypatch.setitem(first_hour.LINES, 1, broken)
    assert first_hour.main([1, 13]) == 1
    out = capsys.readouterr().out
    assert "WRONG  ValueError: no such thing" in out
    assert "ok     held-out bounds" in out
