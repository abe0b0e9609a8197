"""Rows of a dual problem as tensors: on a GPU, on the CPU, or in host memory and streamed through a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from evenhand._kernels import torch_moments
from evenhand._kernels.torch_hashing import signed
from evenhand._kernels.torch_streaming import stream_parts
from evenhand._utils.typing import FloatArray
from evenhand.dual.rows import DualRows, MemoryRows, PolicyMoments

SINGLE_FROM = (
    1_000_000  # rows given in float32 that are summed in float32: of fewer, rounding would not average out
)
FUSED_FROM = 1 << 25  # rows x atoms from which the compiled kernels are worth their compilation
MOST_ON_CARD = 0.7  # share of a card's free memory that rows may take: else they are streamed


@dataclass(frozen=True, slots=True, eq=False)
class TorchRows:
    """Rows as tensors, whose sums are computed on `device`, in float64 or in float32 as they were given."""

    design: Any  # kept imbalances, then cost features: (n_kept + n_features, n_rows)
    constant: Any  # (n_rows,); None: the square of the last column, as for the squared cost
    weights: Any  # (n_rows,), sums to one; None where all rows count alike
    n_kept: int
    device: Any  # torch.device; the tensors are there, or in host memory and streamed
    keeps_samples: bool  # on the device; else samples go to the compiled loops of the CPU
    means: FloatArray = field(init=False)  # of the kept imbalances, and last of the last column's square
    mean_of_constant: float = field(init=False)

    def __post_init__(self) -> None:
        def sums(design: Any, weights: Any) -> Any:
            columns = (*design[: self.n_kept], design[-1].square())
            return torch.stack([_weighted_sum(column, weights) for column in columns])

        object.__setattr__(self, "means", self._mean(sums))
        mean = float(self.means[-1])
        if self.constant is not None:
            total = float(_weighted_sum(self.constant, self.weights))
            mean = total / self.n_rows if self.weights is None else total
        object.__setattr__(self, "mean_of_constant", mean)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.design.shape[1])

    @property
    def passes_are_cheap(self) -> bool:
        """Those of a GPU are."""
        return self.keeps_samples

    def moments(self, loadings: FloatArray, offset: FloatArray, *, whole: bool = False) -> PolicyMoments:
        """Moments of the kept imbalances; with `whole` also of the features, and last of a one."""
        n_moments = len(self.design) + 1 if whole else self.n_kept
        sums = choose_sums(self, loadings, offset, n_moments, whole=whole)
        return PolicyMoments(*sums.finish(self._mean(sums), float(self.means[-1])))

    def mean_constant(self) -> float:
        """Mean of the cost that no atom changes."""
        return self.mean_of_constant

    def second_moment(self) -> FloatArray:
        """`E[u u^T]` of the kept imbalances, (n_kept, n_kept)."""

        def sums(design: Any, weights: Any) -> Any:
            return torch_moments.second_moment(design[: self.n_kept], weights)

        return self._mean(sums)

    def sample(self, size: int) -> DualRows:
        """The same `size` rows every time, one of each of as many stretches, with the mean imbalance of all.

        On the device; in memory where sums of the CPU are asked for, whose compiled loops are faster.
        """
        places = spread_places(self.n_rows, size, self.design.device)
        design = self.design[:, places].to(self.device, torch.float64)
        constant, weights = self._take(self.constant, places), self._take(self.weights, places)
        if weights is not None:
            weights = weights / weights.sum()
        for column, mean in zip(design[: self.n_kept], self.means[:-1], strict=True):
            of_sample = _weighted_sum(column, weights)
            column += float(mean) - (of_sample / size if weights is None else of_sample)
        if self.keeps_samples:
            if size >= SINGLE_FROM:
                design = design.to(self.design.dtype)
            return TorchRows(design, constant, weights, self.n_kept, self.device, True)
        return _as_arrays(design, constant, weights, self.n_kept)

    def in_memory(self) -> MemoryRows:
        """All rows as arrays: for samples."""
        return _as_arrays(self.design, self.constant, self.weights, self.n_kept)

    def _take(self, column: Any, places: Any) -> Any:
        """Some numbers of a column on the device; None of one that is not there."""
        return None if column is None else column[places].to(self.device, torch.float64)

    def _mean(self, sums: Callable[[Any, Any], Any]) -> FloatArray:
        """Weighted mean over all rows of what `sums` adds up over some of them."""
        total: Any = 0.0
        for design, weights in self._parts():
            total = sums(design, weights) + total
        found: FloatArray = total.cpu().numpy()
        return found / self.n_rows if self.weights is None else found

    def _parts(self) -> Iterator[tuple[Any, Any]]:
        if self.design.device == self.device:
            return iter([(self.design, self.weights)])
        return stream_parts(self.design, self.weights, self.device)


def _as_arrays(design: Any, constant: Any, weights: Any, n_kept: int) -> MemoryRows:
    """Tensors as rows in memory, in float64."""
    n_rows = design.shape[1]
    if constant is None:
        constant = design[-1].to(torch.float64) ** 2
    if weights is None:
        weights = torch.full((n_rows,), 1.0 / n_rows)
    arrays = [each.to("cpu", torch.float64).numpy() for each in (design, constant, weights)]
    return MemoryRows(np.ascontiguousarray(arrays[0]), arrays[1], arrays[2], n_kept)


def choose_sums(
    rows: TorchRows, loadings: FloatArray, offset: FloatArray, n_moments: int, *, whole: bool
) -> Any:
    """The fused kernels where there are any and they are worth it, or plain torch."""
    fused = _fused() if rows.device.type == "cuda" and rows.n_rows * len(offset) >= FUSED_FROM else None
    if fused is not None and len(rows.design) <= fused.MOST_COLUMNS:
        single = rows.design.dtype != torch.float64 and rows.n_rows >= SINGLE_FROM and not whole
        return fused.FusedMoments(loadings, offset, n_moments, rows.device, single=single)
    return torch_moments.PlainMoments(loadings, offset, n_moments, rows.device)


def _fused() -> Any:
    """The Triton kernels, or None where there is no Triton."""
    try:
        from evenhand._kernels import triton_launch
    except ImportError:
        return None
    return triton_launch


def _weighted_sum(column: Any, weights: Any) -> Any:
    """Sum of a column in float64; of rows without weights, each counts one."""
    if weights is None:
        return column.sum(dtype=torch.float64)
    return (column.double() * weights).sum()


def spread_places(n_rows: int, size: int, device: Any) -> Any:
    """One row of each of `size` stretches of the rows, in order, the same on every device.

    Where in its stretch is a hash of the stretch's number (the mixer of splitmix64): a regular step could
    fall in with an order of the rows.
    """
    numbers = torch.arange(size, dtype=torch.int64, device=device)
    starts = numbers * n_rows // size
    lengths = (numbers + 1) * n_rows // size - starts
    mixed = (numbers + 1) * signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))) * signed(factor)
    mixed = mixed ^ ((mixed >> 31) & ((1 << 33) - 1))
    return starts + (mixed & ((1 << 62) - 1)) % lengths


def settle(device: Any) -> tuple[Any, bool]:
    """A device by its full name, and whether samples of rows stay there."""
    found = torch.device(device)
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", torch.cuda.current_device())
    return found, found.type != "cpu"


def place_rows(rows: MemoryRows, device: Any) -> TorchRows:
    """Rows in memory, on a device where they fit there, or streamed through it."""
    home, keeps_samples = settle(device)
    alike = bool((rows.weights == rows.weights[:1]).all())
    n_design = len(rows.design)
    columns = empty_columns((n_design + 1 + (not alike), rows.n_rows), torch.float64, home)
    given = [*rows.design, rows.constant, *([] if alike else [rows.weights])]
    for target, column in zip(columns, given, strict=True):
        target.copy_(torch.from_numpy(np.ascontiguousarray(column)))
    weights = None if alike else columns[-1]
    return TorchRows(columns[:n_design], columns[n_design], weights, rows.n_kept, home, keeps_samples)


def empty_columns(shape: tuple[int, int], real: Any, home: Any, at: Any = None) -> Any:
    """Room for columns of rows on the device, or, where it has none, in pinned host memory.

    What comes from the device itself, where `at` says so, stays there in any case.
    """
    if home.type == "cuda" and home != at:
        size = shape[0] * shape[1] * real.itemsize
        if size > MOST_ON_CARD * torch.cuda.mem_get_info(home)[0]:
            return torch.empty(shape, dtype=real, pin_memory=True)
    return torch.empty(shape, dtype=real, device=home)
