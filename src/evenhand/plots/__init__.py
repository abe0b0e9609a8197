"""Displays: `.frame()` holds the numbers of a picture, `.plot()` draws them.

| display | what it shows |
| --- | --- |
| `DistributionDisplay` | predictions by group, before and after, and the largest gap between distributions |
| `FrontierDisplay` | risk against unfairness, a point for each tolerance |
| `ConvergenceDisplay` | risk and unfairness while a solver runs |
| `CalibrationDisplay` | group probabilities against what was observed, with the noise to expect |
| `TiltDisplay` | which predictions the parity step favours in each group |
| `MovementDisplay` | who moved: new against old score, group by group |
| `PushDisplay` | what moved one person: the distribution before and after, and each group's push |
"""

from evenhand.plots.calibration import CalibrationDisplay
from evenhand.plots.convergence import ConvergenceDisplay
from evenhand.plots.distribution import DistributionDisplay
from evenhand.plots.frontier import FrontierDisplay
from evenhand.plots.movement import MovementDisplay
from evenhand.plots.pushes import PushDisplay
from evenhand.plots.style import GREY, INK, MARK
from evenhand.plots.tilt import TiltDisplay

__all__ = [
    "GREY",
    "INK",
    "MARK",
    "CalibrationDisplay",
    "ConvergenceDisplay",
    "DistributionDisplay",
    "FrontierDisplay",
    "MovementDisplay",
    "PushDisplay",
    "TiltDisplay",
]
