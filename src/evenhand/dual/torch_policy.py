"""Predictions of a policy for rows of tensors, on their device: what `SoftmaxPolicy` does for arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from evenhand._kernels import torch_moments
from evenhand._kernels.torch_hashing import signed, siphash
from evenhand._utils.tensor_rows import TensorRows
from evenhand.data.draws import GRID, ROW_TAG, HashArray
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.torch_design import design_columns, require_reach


@dataclass(frozen=True, slots=True, eq=False)
class TensorPolicy:
    """A policy and the rows that it is asked about; answers are tensors of the scores' type and device.

    All is computed in float64, as it is for arrays: answers differ from those in the last digits, if at all.
    """

    policy: SoftmaxPolicy
    rows: TensorRows

    def pmf(self) -> Any:
        """Probability of each atom, shape (n_rows, n_atoms)."""
        out = self._empty(len(self.policy.tilt))
        for rows, chances in self._blocks():
            out[rows] = chances
        return out

    def mean(self) -> Any:
        """Mean of each row's distribution, shape (n_rows,)."""
        out, grid = self._empty(), self.policy.grid
        atoms = torch.from_numpy(grid.normalised()).to(self.rows.device)
        for rows, chances in self._blocks():
            out[rows] = ((chances @ atoms) * grid.half_width + grid.centre).to(out.dtype)
        return out

    def quantile(self, levels: Any) -> Any:
        """Smallest atom whose cumulated probability reaches its level, one number or one per row."""
        out = self._empty()
        atoms = torch.from_numpy(self.policy.grid.atoms).to(self.rows.device)
        each = torch.as_tensor(levels, dtype=torch.float64, device=self.rows.device).expand(self.rows.n_rows)
        for rows, chances in self._blocks():
            below = (chances.cumsum(dim=1) < each[rows][:, None]).sum(dim=1)
            out[rows] = atoms[below.clamp_(max=len(atoms) - 1)].to(out.dtype)
        return out

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def uniforms(self, key: HashArray) -> Any:
        """The keyed hash of each row as a number in (0, 1): bit for bit that of arrays."""
        grid, parts, words_of_key = self.policy.grid, [], (int(key[0]), int(key[1]))
        for _, scores, proba in self.rows.blocks():
            scaled = scores if scores.ndim == 2 else ((scores - grid.centre) / grid.half_width)[:, None]
            words = torch.round(torch.cat([scaled, proba], dim=1) * GRID).add_(0.0)  # no negative zero
            block = torch.cat([torch.full_like(words[:, :1], ROW_TAG).long(), words.view(torch.int64)], dim=1)
            hashes = siphash(block.T.contiguous(), words_of_key)
            parts.append((((hashes >> 12) & signed((1 << 52) - 1)).double() + 0.5) * 2.0**-52)
        return torch.cat(parts)

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        """Places and probabilities of consecutive rows."""
        policy = self.policy
        require_reach(policy.grid, self.rows.scores)
        imbalance = ImbalanceModel.from_prior(policy.group_prior, policy.strata)
        loadings, offset = torch_moments.to_device(*policy.logits(), self.rows.device)
        for places, scores, proba in self.rows.blocks():
            design = design_columns(imbalance, policy.grid, scores, proba)
            for some in torch_moments.blocks(design.shape[1], len(offset), design.device):
                rows = slice(places.start + some.start, places.start + some.stop)
                yield rows, torch_moments.policy(design[:, some], loadings, offset)

    def _empty(self, *width: int) -> Any:
        scores = self.rows.scores
        return torch.empty((self.rows.n_rows, *width), dtype=scores.dtype, device=scores.device)
