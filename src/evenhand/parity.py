"""Parity notions: the difference between groups that a fitted model keeps within epsilon.

The estimators take a notion by its name, such as `parity="cdf"`, or as an object, such as
`parity=Thresholds([30_000])`. `PARITIES` lists the names. To define a notion of your own, extend
`ParityNotion`; `register_parity` gives it a name. docs/how-to/extending.md has a complete example.

A notion consists of a linear operator over the probabilities of the atoms (`Cumulative`, `Dense`,
`Functional`, `Identity`) and a norm of the operator's result (`SupNorm`, `L1Norm`).

>>> from evenhand.parity import find_parity
>>> find_parity("ks")
CdfParity()
"""

from evenhand.dual.parity import (
    METRICS,
    PARITIES,
    CdfParity,
    Cumulative,
    Dense,
    Functional,
    Identity,
    L1Norm,
    MeanParity,
    Norm,
    Operator,
    Parity,
    ParityNotion,
    PmfParity,
    SupNorm,
    Thresholds,
    TvParity,
    W1Parity,
    find_parity,
    make_parity,
    matrix,
    register_parity,
    resolve_parity,
)

__all__ = [
    "METRICS",
    "PARITIES",
    "CdfParity",
    "Cumulative",
    "Dense",
    "Functional",
    "Identity",
    "L1Norm",
    "MeanParity",
    "Norm",
    "Operator",
    "Parity",
    "ParityNotion",
    "PmfParity",
    "SupNorm",
    "Thresholds",
    "TvParity",
    "W1Parity",
    "find_parity",
    "make_parity",
    "matrix",
    "register_parity",
    "resolve_parity",
]
