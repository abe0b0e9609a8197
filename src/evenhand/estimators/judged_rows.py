"""Which rows judge a parity step, and in which folds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import IntArray

MOST_JUDGED = 20_000  # rows; on as many chance shows a distance of about .006
# Rows on which maps that mend the models are tested: what a model of the group gets wrong is what new people
# see at `epsilon=0`, and a distance of .005 is too little for the rows above to tell from chance.
MOST_TESTED = 100_000
LEAST_OF_KIND = 200  # rows of each group, or group and outcome, that has them


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRows:
    """Labelled rows on which all that comes after the models is cross-fitted: all, or a sample of many."""

    places: IntArray  # among the labelled rows, increasing
    folds: list[IntArray]  # places among these of the rows that one and the same model scored

    @classmethod
    def choose(
        cls, folds: Sequence[IntArray], kinds: IntArray, seed: int = 0, most: int | None = None
    ) -> "JudgedRows":
        """All rows, or of many a sample of `most` (MOST_JUDGED), with more of a rare kind than its share.

        A pmf of each judged row is held, so that their number must not grow with that of all rows. The rows
        that a rare kind has too many are so few that everybody's distribution hardly feels them.
        """
        n_rows = len(kinds)
        most = MOST_JUDGED if most is None else most
        if n_rows <= most:
            return cls(np.arange(n_rows), list(folds))
        shuffled = np.random.default_rng(seed).permutation(n_rows)
        by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
        starts = np.cumsum(np.bincount(kinds)) - np.bincount(kinds)
        rank = np.empty(n_rows, np.int64)  # of a row among those of its kind
        rank[by_kind] = np.arange(n_rows) - starts[kinds[by_kind]]
        chosen = rank < LEAST_OF_KIND
        chosen[shuffled[:most]] = True
        return cls.at(np.flatnonzero(chosen), folds, n_rows)

    @classmethod
    def at(cls, places: IntArray, folds: Sequence[IntArray], n_rows: int) -> "JudgedRows":
        """The rows at these places, in the folds of all rows."""
        fold_of = np.empty(n_rows, np.int64)
        for number, fold in enumerate(folds):
            fold_of[fold] = number
        return cls(places, [np.flatnonzero(fold_of[places] == number) for number in range(len(folds))])

    def spread(self, rows: IntArray, n_rows: int) -> "JudgedRows":
        """The same where each of `n_rows` rows comes several times, as `rows`, sorted, has it."""
        fold_of = np.full(n_rows, -1)
        for number, fold in enumerate(self.folds):
            fold_of[self.places[fold]] = number
        places = np.flatnonzero(fold_of[rows] >= 0)
        of_places = fold_of[rows[places]]
        return JudgedRows(places, [np.flatnonzero(of_places == place) for place in range(len(self.folds))])

    def with_unknown(
        self, places: IntArray, folds: Sequence[IntArray], n_rows: int, seed: int
    ) -> "JudgedRows":
        """The same among `n_rows` rows, where `places` are those of known groups, with others beside them.

        They judge nothing, but the step learns from them, too: as large a share of them is taken, so that
        it learns from people as it does in the end.
        """
        unknown = np.setdiff1d(np.arange(n_rows), places)
        share = len(self.places) / len(places)
        wanted = min(MOST_JUDGED, int(np.ceil(share * len(unknown))))
        if wanted < len(unknown):
            unknown = np.random.default_rng(seed).choice(unknown, wanted, replace=False)
        return JudgedRows.at(np.sort(np.concatenate([places[self.places], unknown])), folds, n_rows)
