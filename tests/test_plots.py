"""Displays: the numbers are in the frame, and the picture shows them."""

import sys

import numpy as np
import pandas as pd
import pytest

from evenhand.datasets import make_population
from evenhand.frontier import frontier
from evenhand.plots import FrontierDisplay
from evenhand.postprocessor import ParityPostprocessor


def display(n_points=20):
    """A frontier on the half circle, the crowded end included."""
    epsilon = np.append(0.0, np.geomspace(0.002, 0.4, n_points - 1))
    return FrontierDisplay(
        epsilon=epsilon,
        risk=0.04 - 0.02 * np.sqrt(1 - (epsilon / 0.5 - 1) ** 2),
        unfairness=0.03 + epsilon,
        base_risk=0.019,
        base_unfairness=0.45,
    )


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, ax = pyplot.subplots()
    yield ax
    pyplot.close(figure)


def test_the_frame_holds_the_points_and_then_the_base():
    shown = display()
    frame = shown.frame("pandas")
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame["epsilon"][:-1], shown.epsilon)
    assert np.isnan(frame["epsilon"].iloc[-1])
    assert frame["risk"].iloc[-1] == shown.base_risk
    assert frame["unfairness"].tolist()[-1] == shown.base_unfairness


def test_the_picture_shows_every_point_and_the_base_in_the_axes_given(axes):
    shown = display().plot(axes)
    assert shown.ax_ is axes
    assert shown.figure_ is axes.figure
    line, base = axes.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), shown.unfairness)
    np.testing.assert_array_equal(line.get_ydata(), shown.risk)
    assert (base.get_xdata()[0], base.get_ydata()[0]) == (0.45, 0.019)
    assert "KS distance" in axes.get_xlabel()
    assert "Risk" in axes.get_ylabel()
    assert axes.get_title(loc="left")


def test_labels_of_epsilon_do_not_cover_each_other(axes):
    shown = display().plot(axes)
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert {text.get_text() for text in axes.texts} >= {"base model", "ε = 0", "0.4"}
    assert 5 < len(boxes) <= len(shown.epsilon)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_single_point_is_drawn_too(axes):
    one = FrontierDisplay(np.zeros(1), np.ones(1), np.zeros(1), 1.0, 0.0).plot(axes)
    assert len(one.ax_.get_lines()) == 2


def test_a_frontier_draws_itself(axes):
    rows = make_population(300, n_groups=2, random_state=0)
    path = frontier(ParityPostprocessor(), rows.scores, rows.group_proba, epsilons=[0.01, 0.1])
    shown = path.plot(axes)
    np.testing.assert_array_equal(shown.unfairness, path.max_ks)
    assert "distance to the scores" in axes.get_ylabel()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'evenhand\[plot\]'"):
        display().plot()
