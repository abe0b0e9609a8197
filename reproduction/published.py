"""The paper's own figures, as read off its plots' data and its table of times."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray

DATASETS = ("communities", "lawschool", "adult")
TITLES = {"communities": "Communities and Crime", "lawschool": "Law School", "adult": "Adult"}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Means over ten splits, for each tolerance 2^-i."""

    exponents: FloatArray  # i
    risk: FloatArray
    risk_std: FloatArray  # NaN where none was published
    ks: FloatArray  # of the minority
    ks_std: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The figures that were published for one data set."""

    budget: int  # T
    ours: Curve  # DP-postproc, the paper's method
    adw_1: Curve
    adw_2: Curve
    base_risk: float
    base_ks: float
    seconds: dict[str, tuple[float, float]]  # mean and deviation for one tolerance, by method
    solvers: dict[str, Curve]  # the paper's five optimisers; empty where their figures were not written down


@cache
def published(dataset: str) -> Published:
    """The published figures of one of `DATASETS`.

    >>> published("lawschool").budget
    5000
    """
    table = json.loads(files("reproduction").joinpath("published.json").read_text())[dataset]
    grid = table["eps_exponent_i (eps=2^-i per group)"]
    methods = {name: table[name] for name in ("dp_postproc", "adw_1", "adw_2")}
    return Published(
        budget=table["T"],
        ours=_curve(methods["dp_postproc"], grid),
        adw_1=_curve(methods["adw_1"], methods["adw_1"]["eps_exponent_i"]),
        adw_2=_curve(methods["adw_2"], methods["adw_2"]["eps_exponent_i"]),
        base_risk=table["base"]["risk_mean"],
        base_ks=table["base"]["ks_minority_mean"],
        seconds={name: (each["seconds_mean"], each["seconds_std"]) for name, each in methods.items()},
        solvers={name: _curve(each, grid) for name, each in table.get("solvers", {}).items()},
    )


def _curve(table: dict[str, Any], exponents: list[int]) -> Curve:
    missing = np.full(len(exponents), np.nan)
    names = ("risk_mean", "risk_std", "ks_minority_mean", "ks_minority_std")
    return Curve(np.array(exponents, float), *(np.array(table.get(name, missing), float) for name in names))
