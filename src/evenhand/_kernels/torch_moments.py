"""Sums over rows under softmax policies in plain torch, on any device, block by block of rows.

What `softmax.py` has for NumPy, in float64 and with the (rows x atoms) matrix of one block at a time. Logits
are in units of log 2; designs have shape (n_columns, n_rows); rows without weights count one each.
"""

from collections.abc import Iterator
from typing import Any

import torch

from evenhand._utils.typing import FloatArray

BLOCK_ENTRIES = {"cpu": 1 << 20, "cuda": 1 << 26}  # of a matrix held at once: what fits in caches, in a card


def blocks(n_rows: int, n_atoms: int, device: Any) -> Iterator[slice]:
    """Rows in blocks whose matrix fits."""
    size = max(1, BLOCK_ENTRIES.get(device.type, 1 << 24) // n_atoms)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def powers(columns: Any, loadings: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Unnormalised policy of some rows, (rows, n_atoms), its sums and the largest logits, (rows, 1)."""
    logits = torch.addmm(offset, columns.T, loadings.T)
    top = logits.amax(dim=1, keepdim=True)
    found = logits.sub_(top).exp2_()
    return found, found.sum(dim=1, keepdim=True), top


def policy(columns: Any, loadings: Any, offset: Any) -> Any:
    """Probabilities of the atoms for some rows, (rows, n_atoms)."""
    found, total, _ = powers(columns, loadings, offset)
    return found.div_(total)


def to_device(loadings: FloatArray, offset: FloatArray, device: Any) -> tuple[Any, Any]:
    """Loadings and offset as float64 on a device."""
    return torch.from_numpy(loadings).to(device), torch.from_numpy(offset).to(device)


class PlainMoments:
    """Sums of log2-sum-exp2 and of the largest logit, then of `column * policy`, block by block."""

    def __init__(self, loadings: FloatArray, offset: FloatArray, n_moments: int, device: Any) -> None:
        self.loadings, self.offset = to_device(loadings, offset, device)
        self.n_moments = n_moments

    def __call__(self, design: Any, weights: Any) -> Any:
        """Sums over rows, one vector of float64 on their device; the column after the last is one."""
        n_atoms = len(self.offset)
        total = self.offset.new_zeros(2 + self.n_moments * n_atoms)
        for rows in blocks(design.shape[1], n_atoms, design.device):
            columns = design[:, rows].double()
            found, mass, top = powers(columns, self.loadings, self.offset)
            weight = torch.ones_like(mass[:, 0]) if weights is None else weights[rows].double()
            some = torch.cat([columns, torch.ones_like(columns[:1])])[: self.n_moments]
            of_rows = torch.stack([weight @ (torch.log2(mass) + top)[:, 0], weight @ top[:, 0]])
            total += torch.cat([of_rows, ((some * (weight / mass[:, 0])) @ found).ravel()])
        return total

    def finish(self, found: FloatArray, mean_square: float) -> tuple[float, FloatArray, float]:
        """Smooth, moments and peak from means of sums over rows."""
        return float(found[0]), found[2:].reshape(self.n_moments, -1), float(found[1])


def second_moment(kept: Any, weights: Any) -> Any:
    """Sum of `u u^T` over rows, (n_kept, n_kept), float64."""
    total = torch.zeros((len(kept), len(kept)), dtype=torch.float64, device=kept.device)
    for rows in blocks(kept.shape[1], len(kept), kept.device):
        columns = kept[:, rows].double()
        total += (columns if weights is None else columns * weights[rows]) @ columns.T
    return total
