"""Sums over rows under softmax policies in plain torch, on any device, block by block of rows.

What `softmax.py` has for NumPy, in float64 and with the (rows x atoms) matrix of one block at a time. Logits
are in units of log 2; designs have shape (n_columns, n_rows); rows without weights count one each.
"""

from collections.abc import Iterator
from typing import Any

import torch

from evenhand._kernels.softmax import NEGLIGIBLE, TILE
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


def curvature(design: Any, weights: Any, loadings: FloatArray, offset: FloatArray, n_kept: int) -> Any:
    """Sums of `u_s u_t pi pi^T` and, as a last row, of `u_s u_t pi`, for each pair s <= t of imbalances u.

    Shape (n_pairs, n_atoms + 1, n_atoms), float64.
    """
    on_device, bias = to_device(loadings, offset, design.device)
    pairs, n_atoms = torch.triu_indices(n_kept, n_kept, device=design.device), len(offset)
    total = torch.zeros((pairs.shape[1], n_atoms + 1, n_atoms), dtype=torch.float64, device=design.device)
    for rows in blocks(design.shape[1], n_atoms, design.device):
        columns = design[:, rows].double()
        left, right = _without_tails(policy(columns, on_device, bias))
        for place, (s, t) in enumerate(pairs.T.tolist()):
            scale = columns[s] * columns[t]
            if weights is not None:
                scale = scale * weights[rows].double()
            total[place, :n_atoms] += (left * scale[:, None]).T @ right
            total[place, n_atoms] += scale @ left
    return total


def _without_tails(chances: Any) -> tuple[Any, Any]:
    """The two factors of a row's curvature that the compiled loops take: a Hessian is the same anywhere.

    From the first atom that is not negligible to the last, and up to the end of that one's tile.
    """
    places = torch.arange(chances.shape[1], device=chances.device)
    used = chances > NEGLIGIBLE
    first = torch.where(used, places, len(places)).amin(dim=1, keepdim=True)
    stop = torch.where(used, places + 1, 0).amax(dim=1, keepdim=True)
    left = torch.where((places >= first) & (places < stop), chances, 0.0)
    return left, torch.where(places < (stop + TILE - 1) // TILE * TILE, chances, 0.0)


def variances(
    design: Any, weights: Any, loadings: FloatArray, offset: FloatArray, values: FloatArray, n_kept: int
) -> Any:
    """Sum of `u u^T Var_pi(values)` over rows, (n_kept, n_kept), float64."""
    on_device, bias = to_device(loadings, offset, design.device)
    of_atoms = torch.from_numpy(values).to(design.device)
    total = torch.zeros((n_kept, n_kept), dtype=torch.float64, device=design.device)
    for rows in blocks(design.shape[1], len(offset), design.device):
        columns = design[:, rows].double()
        chances = policy(columns, on_device, bias)
        away = of_atoms - (chances @ of_atoms)[:, None]
        spread = (chances * away**2).sum(dim=1)
        if weights is not None:
            spread = spread * weights[rows].double()
        kept = columns[:n_kept]
        total += (kept * spread) @ kept.T
    return total


def second_moment(kept: Any, weights: Any) -> Any:
    """Sum of `u u^T` over rows, (n_kept, n_kept), float64."""
    total = torch.zeros((len(kept), len(kept)), dtype=torch.float64, device=kept.device)
    for rows in blocks(kept.shape[1], len(kept), kept.device):
        columns = kept[:, rows].double()
        total += (columns if weights is None else columns * weights[rows]) @ columns.T
    return total
