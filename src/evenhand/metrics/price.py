"""What parity costs, measured against a prediction that is the same for everybody."""

import numpy as np

HARDLY = 0.1  # of what the scores gain over a constant: with less left, a constant would nearly do


def gain_kept(risk: float, base_risk: float, constant_risk: float) -> float:
    """Share of what the scores gain over the best constant that is left; NaN where they gain nothing.

    >>> gain_kept(risk=9.0, base_risk=5.0, constant_risk=10.0)
    0.2
    """
    gain = constant_risk - base_risk
    return (constant_risk - risk) / gain if gain > 1e-9 * abs(constant_risk) else np.nan


def is_hardly_better(risk: float, base_risk: float, constant_risk: float) -> bool:
    """Whether little is left of what the scores gain over a constant."""
    return bool(gain_kept(risk, base_risk, constant_risk) < HARDLY)


def price_sentence(risk: float, base_risk: float, constant_risk: float) -> str:
    """Risk of the best constant, the gain over it, and a warning where little is left; empty if it is 0."""
    if not constant_risk > 0:
        return ""
    told = f"The best constant has risk {constant_risk:.3g}: 1 - risk / that (R^2 for squared error) is "
    told += f"{1.0 - risk / constant_risk:.3g}"
    if np.isfinite(base_risk):
        told += f", and {1.0 - base_risk / constant_risk:.3g} before"
    if is_hardly_better(risk, base_risk, constant_risk):
        told += ". The predictions are hardly better than one number for everybody"
    return told + "."
