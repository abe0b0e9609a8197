"""Risk, distance between groups, and what chance alone would show, of predictions on the test rows.

Predictions that are drawn count with their exact distribution, so that no draw adds noise.
"""

from dataclasses import dataclass

import numpy as np

N_SHUFFLES = 20  # of the groups, for what chance alone shows
MANY_ROWS, FEW_SHUFFLES = 50_000, 5  # where chance shows next to nothing


@dataclass(frozen=True, eq=False)
class Values:
    """Each row's prediction is one of the columns of `values`, by the probabilities `weights`."""

    values: np.ndarray  # (n, n_columns)
    weights: np.ndarray  # (n_columns,)

    def risk(self, y: np.ndarray) -> float:
        return float((self.weights * (self.values - y[:, None]) ** 2).sum(axis=1).mean())

    def distance(self, groups: np.ndarray, rng: np.random.Generator | None = None) -> "Distance":
        flat = self.values.ravel()
        weights = np.tile(self.weights, len(self.values))
        order = np.argsort(flat, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(flat[order]) > 0), len(flat) - 1)
        rows, weights = order // len(self.weights), weights[order]

        def largest(codes: np.ndarray) -> float:
            below = np.cumsum(weights[:, None] * np.eye(codes.max() + 1)[codes[rows]], axis=0)[ends]
            return float(
                np.abs(below / np.bincount(codes) - below.sum(axis=1, keepdims=True) / len(codes)).max()
            )

        return _with_chance(largest, groups, rng)


@dataclass(frozen=True, eq=False)
class Pmf:
    """Each row's prediction is one of `atoms`, by its row of probabilities."""

    atoms: np.ndarray  # (n_atoms,), sorted
    pmf: np.ndarray  # (n, n_atoms)

    def risk(self, y: np.ndarray) -> float:
        first, second = self.pmf @ self.atoms, self.pmf @ self.atoms**2
        return float((second - 2.0 * y * first + y**2).mean())

    def distance(self, groups: np.ndarray, rng: np.random.Generator | None = None) -> "Distance":
        below = np.cumsum(self.pmf, axis=1)
        everybody = below.mean(axis=0)

        def largest(codes: np.ndarray) -> float:
            members = np.eye(codes.max() + 1)[codes]
            return float(np.abs((members.T @ below) / np.bincount(codes)[:, None] - everybody).max())

        return _with_chance(largest, groups, rng)


@dataclass(frozen=True, eq=False)
class Decisions:
    """Each row is decided for with this chance."""

    chances: np.ndarray  # (n,)

    def risk(self, y: np.ndarray) -> float:
        return float(np.where(y == 1, 1.0 - self.chances, self.chances).mean())

    def distance(self, groups: np.ndarray, rng: np.random.Generator | None = None) -> "Distance":
        rate = self.chances.mean()

        def largest(codes: np.ndarray) -> float:
            rates = np.bincount(codes, self.chances) / np.bincount(codes)
            return float(np.abs(rates - rate).max())

        return _with_chance(largest, groups, rng)


Prediction = Values | Pmf | Decisions


@dataclass(frozen=True)
class Distance:
    """The largest distance of a group to everybody, and the root mean square of it with groups shuffled."""

    seen: float
    chance: float


def _with_chance(largest, groups, rng) -> Distance:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0) if rng is None else rng
    n_shuffles = N_SHUFFLES if len(groups) < MANY_ROWS else FEW_SHUFFLES
    shuffled = [largest(rng.permutation(groups)) ** 2 for _ in range(n_shuffles)]
    return Distance(largest(groups), float(np.sqrt(np.mean(shuffled))))


def measure(prediction: Prediction, y: np.ndarray, groups: np.ndarray) -> dict[str, float | None]:
    """What is stored of one fit."""
    found = prediction.distance(groups)
    rate = float(prediction.chances.mean()) if isinstance(prediction, Decisions) else None
    return {"risk": prediction.risk(y), "distance": found.seen, "chance": found.chance, "rate": rate}
