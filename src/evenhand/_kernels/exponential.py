"""A vectorising `2 ** x` over lanes of rows, in float32 and float64.

`2 ** x = 2 ** k * 2 ** f` with k an integer, written straight into the exponent bits, and f in
[-1/2, 1/2], a polynomial of the degree that the precision holds (Taylor's: its worst relative error
is 1e-7 in float32 and 6e-15 in float64).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from evenhand._kernels.compiling import njit

_OPTIONS = {"nogil": True, "cache": True, "fastmath": True, "error_model": "numpy"}

_C1, _C2, _C3 = 0.6931471805599453, 0.2402265069591007, 0.05550410866482158
_C4, _C5, _C6 = 0.009618129107628477, 0.0013333558146428443, 0.0001540353039338161
_C7, _C8, _C9 = 1.525273380405984e-05, 1.3215486790144305e-06, 1.0178086009239699e-07
_C10, _C11 = 7.0549116208011225e-09, 4.4455382718708116e-10

_S1, _S2, _S3 = np.float32(_C1), np.float32(_C2), np.float32(_C3)
_S4, _S5, _S6 = np.float32(_C4), np.float32(_C5), np.float32(_C6)
_ONE, _HALF, _LOWEST = np.float32(1.0), np.float32(0.5), np.float32(-126.0)


@njit(**_OPTIONS)
def _exp2_single_into(block, total, top, exponents, scales):
    n_lanes = top.shape[0]
    for i in range(block.shape[0]):
        row = block[i]
        for r in range(n_lanes):
            x = max(row[r] - top[r], _LOWEST)
            k = np.int32(x - _HALF)
            f = x - np.float32(k)
            row[r] = _ONE + f * (_S1 + f * (_S2 + f * (_S3 + f * (_S4 + f * (_S5 + f * _S6)))))
            exponents[r] = (k + np.int32(127)) << np.int32(23)
        for r in range(n_lanes):
            row[r] *= scales[r]
            total[r] += row[r]


@njit(**_OPTIONS)
def _exp2_double_into(block, total, top, exponents, scales):
    n_lanes = top.shape[0]
    for i in range(block.shape[0]):
        row = block[i]
        for r in range(n_lanes):
            x = max(row[r] - top[r], -1000.0)
            k = np.int64(x - 0.5)
            f = x - np.float64(k)
            high = _C6 + f * (_C7 + f * (_C8 + f * (_C9 + f * (_C10 + f * _C11))))
            row[r] = 1.0 + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * (_C5 + f * high)))))
            exponents[r] = (k + np.int64(1023)) << np.int64(52)
        for r in range(n_lanes):
            row[r] *= scales[r]
            total[r] += row[r]


def exp2_block_into(block: Any, total: Any, top: Any, exponents: Any, scales: Any) -> None:
    """Replace `block[l, r]` by `2 ** (block[l, r] - top[r])` and add the sum over l to `total[r]`.

    `scales` is the memory of the integers `exponents`, read as floats. Called from compiled code.
    """


@overload(exp2_block_into)
def _choose_exp2(block: Any, total: Any, top: Any, exponents: Any, scales: Any) -> Callable[..., None]:
    compiled = _exp2_single_into if block.dtype == types.float32 else _exp2_double_into

    def run(block: Any, total: Any, top: Any, exponents: Any, scales: Any) -> None:
        compiled(block, total, top, exponents, scales)

    return run
