"""Who is in which group, as far as that is known, and what a row counts there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress, product
from typing import Any

import numpy as np
from scipy import sparse

from evenhand._utils.labels import Groups, combine_groups, is_uncertain, read_one_sensitive
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels
from evenhand._utils.warn import warn_user
from evenhand.exceptions import ProxyWarning

PROXY = (
    "Groups are given as probabilities. Distances are then right only as far as the prediction tells nothing "
    "of a person's group that the probabilities do not tell: if those of a group whom the proxy takes for "
    "others are also scored otherwise, it hides that. metrics.unfairness_bounds and audit have the least and "
    "the most that is possible, whatever the proxy hides."
)


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """How much each row counts in each group: wholly in that of its code, or by shares in all of them.

    In all methods `labels` are the groups' names, `weights`, (n_rows,), what each row counts (None: all the
    same), and `strata`, (n_groups,), the number of each group's stratum (None: there are none).
    """

    labels: Labels
    codes: IntArray  # of each row: the place of its label, or of its row of `shares`, (n_rows,)
    shares: AnyArray | None = None  # (n_kinds, n_groups), bool where groups are known; None: one for each row
    weights: FloatArray | None = None  # (n_rows,), on top of either
    strata: IntArray | None = None  # of each group, (n_groups,): those of one stratum are compared

    @classmethod
    def read(cls, sensitive_features: Any, n_rows: int, weights: FloatArray | None = None) -> "Membership":
        """Rows in the groups that labels name, or in all of them by probabilities; none may be unknown.

        Parameters
        ----------
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            As in `unfairness`, or a Membership, which stays as it is.
        n_rows : int
            How many rows it must have.
        weights : array of shape (n_rows,), default=None

        Examples
        --------
        >>> Membership.read([["f", "old"], ["m", "old"]], 2).labels
        (('f', 'old'), ('m', 'old'))
        >>> Membership.read([["f", "m"], ["f", None]], 2)
        Traceback (most recent call last):
        ...
        ValueError: sensitive_features is missing in 1 rows, the first of them row 1: leave these rows out, or
        give them a label of their own.
        """
        rows, members = cls.read_known(sensitive_features, n_rows, weights)
        if members.n_rows < n_rows:
            there = np.zeros(n_rows, bool)
            there[rows] = True
            raise ValueError(
                f"sensitive_features is missing in {n_rows - members.n_rows} rows, the first of them row "
                f"{there.argmin()}: leave these rows out, or give them a label of their own."
            )
        return members

    @classmethod
    def read_known(
        cls, sensitive_features: Any, n_rows: int, weights: FloatArray | None = None
    ) -> tuple[AnyArray | slice, "Membership"]:
        """The rows whose groups are known, and these as members: wholly, or by probabilities in all groups.

        Two or more columns of floats whose every row sums to one are probabilities, and the columns' names
        the groups; all else is one column of labels or several.

        Parameters
        ----------
        sensitive_features, n_rows, weights
            As in `read`.

        Examples
        --------
        >>> rows, members = Membership.read_known(["f", None, "m"], 3)
        >>> rows, members.labels
        (array([0, 2]), ('f', 'm'))
        """
        if isinstance(sensitive_features, Membership):
            return slice(None), sensitive_features
        return cls.of_groups(read_one_sensitive(sensitive_features, n_rows), weights)

    @classmethod
    def of_groups(
        cls, groups: Groups, weights: FloatArray | None = None
    ) -> tuple[AnyArray | slice, "Membership"]:
        """The rows whose `groups` are known, and these as members."""
        rows: AnyArray | slice = slice(None) if groups.known.all() else np.flatnonzero(groups.known)
        if not isinstance(rows, slice):
            groups, weights = groups.take(rows), None if weights is None else weights[rows]
        if groups.proba is None:
            return rows, cls(groups.labels, groups.codes, weights=weights).require_rows()
        if is_uncertain(groups.proba):
            warn_user(PROXY, ProxyWarning)
        return rows, cls.of_proba(groups.labels, groups.proba, weights).require_rows()

    @classmethod
    def of_proba(
        cls,
        labels: Labels,
        proba: FloatArray,
        weights: FloatArray | None = None,
        strata: IntArray | None = None,
    ) -> "Membership":
        """Rows that count in each group by their `proba` of being in it, (n_rows, n_groups)."""
        return cls(labels, np.arange(len(proba)), proba, weights, strata)

    @classmethod
    def of_cells(
        cls, labels: Labels, cells: FloatArray, strata: IntArray | None, weights: FloatArray | None = None
    ) -> "Membership":
        """Rows whose groups within strata are known.

        `cells`, (n_rows, n_groups), are zeros and ones, or shares. A row may be in groups of several strata,
        or in none. Groups without rows are left out.
        """
        present: AnyArray = np.any(cells, axis=0)
        if is_uncertain(cells):
            there = tuple(compress(labels, present))
            return cls.of_proba(
                there, cells[:, present], weights, None if strata is None else strata[present]
            )
        kinds, codes = np.unique(cells[:, present].astype(bool), axis=0, return_inverse=True)
        labels = tuple(compress(labels, present))
        return cls(labels, codes.ravel(), kinds, weights, None if strata is None else strata[present])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def has_weights(self) -> bool:
        """Some rows count more than others."""
        return self.weights is not None and bool((self.weights != self.weights[0]).any())

    @property
    def by_proba(self) -> bool:
        """Groups are known by probabilities alone, some of which are neither zero nor one."""
        return self.shares is not None and self.shares.dtype != bool and is_uncertain(self.shares)

    @property
    def counts_rows(self) -> bool:
        """Every row counts once, in one group: what distribution-free bounds need."""
        return self.shares is None and not self.has_weights

    @property
    def counts(self) -> IntArray:
        """Rows of each group, whatever their weights, (n_groups,)."""
        counts: IntArray = np.rint(replace(self, weights=None).totals()[:-1]).astype(np.int64)
        return counts

    def require_rows(self) -> "Membership":
        """The same; refuses a group in which no row counts."""
        for label, total in zip(self.labels, self.totals(), strict=False):
            if not total > 0:
                raise ValueError(f"No row counts in group {label!r}: leave it out, or add rows.")
        return self

    def column(self, group: int, rows: slice = slice(None)) -> FloatArray:
        """What each row of the slice `rows` counts in the group at the place `group`."""
        codes = self.codes[rows]
        inside = codes == group if self.shares is None else self.shares[codes, group]
        counts = np.asarray(inside, dtype=np.float64)
        return counts if self.weights is None else counts * self.weights[rows]

    def row_totals(self) -> FloatArray:
        """What each row counts in all groups together, (n_rows,)."""
        counts = np.ones(self.n_rows) if self.shares is None else self.shares.sum(axis=1)[self.codes]
        return counts if self.weights is None else counts * self.weights

    def totals(self, values: FloatArray | None = None) -> FloatArray:
        """Weighted sum over each group, and last over all rows, of one number for each row, (n_groups + 1,).

        Without these `values`, (n_rows,), it is what the rows count.
        """
        each = np.ones(self.n_rows) if values is None else values
        weighted = each if self.weights is None else each * self.weights
        by_kind = np.bincount(self.codes, weighted, self._n_kinds).astype(np.float64, copy=False)
        return np.append(by_kind if self.shares is None else by_kind @ self.shares, weighted.sum())

    def sums(self, table: AnyArray, rows: slice = slice(None)) -> FloatArray:
        """Weighted sum over each group, and last over all, of the rows of a table, (n_groups + 1, m).

        Parameters
        ----------
        table : array of shape (n_some_rows, m), which may be sparse
        rows : slice, default: all
            The rows that the table has.
        """
        codes, weights = self.codes[rows], np.ones(len(table))
        weights = weights if self.weights is None else self.weights[rows]
        if self.shares is not None and not self._is_known:
            sums = (self.shares[codes] * weights[:, None]).T @ table
        else:
            starts = np.arange(len(codes) + 1)
            inside = sparse.csr_array((weights, codes, starts), shape=(len(codes), self._n_kinds))
            sums = inside.T @ table
            sums = sums if self.shares is None else self.shares.T @ sums
        together: FloatArray = np.concatenate([sums, (weights @ table)[None]])
        return together

    def sums_at(self, places: IntArray, n_points: int, groups: slice = slice(None)) -> FloatArray:
        """What the rows at each point count in some groups, (n_some_groups, n_points).

        Parameters
        ----------
        places : array of shape (n_rows,)
            Place of each row's point, from 0 to `n_points - 1`.
        n_points : int
        groups : slice, default: all
            Places of the groups.
        """
        wanted = range(*groups.indices(len(self.labels)))
        if not self._is_known or len(wanted) < len(self.labels):
            return np.stack([np.bincount(places, self.column(group), n_points) for group in wanted])
        counts = np.bincount(self.codes * n_points + places, self.weights, self._n_kinds * n_points)
        sums: FloatArray = counts.astype(np.float64, copy=False).reshape(-1, n_points)
        return sums if self.shares is None else self.shares.T @ sums

    def take(self, rows: IntArray) -> "Membership":
        """The rows at the places `rows`, an array of integers; groups keep their places."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, codes=self.codes[rows], weights=weights)

    def within(self, given: Groups) -> "Membership":
        """The same rows with groups `(stratum, group)`, each in those of its own stratum, `given`, only."""
        if self.shares is None:
            both = combine_groups([given, Groups(self.labels, self.codes)])
            cells: Any = both.labels
            strata = np.array([given.labels.index(stratum) for stratum, _ in cells])
            return replace(self, labels=both.labels, codes=both.codes, strata=strata).require_rows()
        shares = given.one_hot()[:, :, None] * self.shares[self.codes][:, None, :]
        shares = shares.reshape(self.n_rows, -1)
        present: AnyArray = np.any(shares, axis=0)
        labels = tuple(compress(product(given.labels, self.labels), present))
        strata = np.repeat(np.arange(len(given.labels)), len(self.labels))[present]
        return Membership.of_proba(labels, shares[:, present], self.weights, strata).require_rows()

    def parts(self) -> Iterator[tuple[IntArray, AnyArray | slice, "Membership"]]:
        """For each stratum its groups, its rows, and these rows as members of these groups alone."""
        if self.strata is None:
            yield np.arange(len(self.labels)), slice(None), self
            return
        kinds = np.eye(len(self.labels)) if self.shares is None else self.shares
        for stratum in np.unique(self.strata):
            groups = np.flatnonzero(self.strata == stratum)
            inside = kinds[:, groups]
            there: AnyArray = np.any(inside, axis=1)
            rows = np.flatnonzero(there[self.codes])
            part = replace(self.take(rows), labels=tuple(self.labels[group] for group in groups), strata=None)
            if self._is_known:  # in one group of the stratum
                yield groups, rows, replace(part, codes=inside.argmax(axis=1)[part.codes], shares=None)
            else:
                yield groups, rows, replace(part, shares=inside)

    @property
    def _n_kinds(self) -> int:
        return len(self.labels if self.shares is None else self.shares)

    @property
    def _is_known(self) -> bool:
        """Groups are known: there are few kinds of rows, and a row is in one group of a stratum at most."""
        return self.shares is None or self.shares.dtype == bool
