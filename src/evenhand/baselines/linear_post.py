"""LinearPost: decisions under demographic parity by a linear program on class and group probabilities."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from evenhand._utils.typing import FloatArray, IntArray


class LinearPost(BaseEstimator):  # type: ignore[misc]
    """The method of Xian and Zhao (2024) for decisions under demographic parity, with the group or without.

    "A Unified Post-Processing Framework for Group Fairness in Classification" (arXiv 2405.04025), by its
    text. On the rows of the fit, with `r_k(x) = 1 - P(Y = k | x)` and `g_s(x) = P(S = s | x)`, the program

        min over pi, q   mean_i sum_k r_k(x_i) pi_k(x_i)
        with             |mean_i g_s(x_i) pi_k(x_i) / p_s - q_k| <= alpha / 2    for every group s and class k

    is solved, and its prices `psi_sk` decide for other rows:

        decision(x) = argmin_k  r_k(x) + sum_s psi_sk g_s(x) / p_s

    A little noise on `r` makes the minimum unique, as the paper asks. There is no promise for new people: the
    group probabilities are taken at their word. `ParityClassifier` smooths the same program, mends the
    probabilities and chooses the tolerance by rows that had no part.

    Parameters
    ----------
    alpha : float, default=0.05
        Largest difference between two groups in the chance of a class, on the rows of the fit.
    noise : float, default=1e-4
        Width of the uniform noise on the risk of each class.
    random_state : int, RandomState or None, default=None
        Seed of the noise.

    Attributes
    ----------
    prices_ : array of shape (n_groups, n_classes)
        `psi / p`: what each group adds to the risk of each class.
    value_ : float
        The program's value: the expected share of errors on the rows of the fit, by the given probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.baselines import LinearPost
    >>> from evenhand.datasets import make_class_population
    >>> rows = make_class_population(1000, random_state=0)
    >>> step = LinearPost(alpha=0.02, random_state=0).fit(rows.class_proba, rows.group_proba)
    >>> decided = step.predict(rows.class_proba, rows.group_proba)
    >>> rates = decided @ rows.group_proba / rows.group_proba.sum(axis=0)
    >>> bool(np.ptp(rates) < 0.025)
    True
    """

    prices_: FloatArray
    value_: float

    def __init__(self, alpha: float = 0.05, *, noise: float = 1e-4, random_state: Any = None) -> None:
        self.alpha = alpha
        self.noise = noise
        self.random_state = random_state

    def fit(self, class_proba: Any, group_proba: Any) -> Self:
        """Solve the linear program.

        Parameters
        ----------
        class_proba : array of shape (n_rows, n_classes)
            `P(Y | x)`, of models that have not seen these rows.
        group_proba : array of shape (n_rows, n_groups)
            `P(S | x)`; zeros and ones where the group is known and may be used.
        """
        if not self.alpha >= 0:
            raise ValueError(f"alpha must be a number that is not negative: got {self.alpha!r}.")
        risks, groups = self._read(class_proba, group_proba)
        sizes = groups.sum(axis=0)  # n p_s
        if not sizes.all():
            raise ValueError("Every group needs a row: a column of group_proba is zero throughout.")
        (n_rows, n_classes), n_groups = risks.shape, groups.shape[1]
        chosen = sparse.kron((groups / sizes).T, sparse.eye(n_classes))  # mean of pi_k in group s, row (s, k)
        centres = sparse.vstack([sparse.eye(n_classes)] * n_groups)  # q_k
        found = linprog(
            np.concatenate([risks.ravel() / n_rows, np.zeros(n_classes)]),
            A_ub=sparse.bmat([[chosen, -centres], [-chosen, centres]], format="csr"),
            b_ub=np.full(2 * n_groups * n_classes, self.alpha / 2),
            A_eq=sparse.hstack(
                [
                    sparse.kron(sparse.eye(n_rows), np.ones((1, n_classes))),
                    sparse.csr_matrix((n_rows, n_classes)),
                ],
                format="csr",
            ),
            b_eq=np.ones(n_rows),
            bounds=[(0, None)] * risks.size + [(None, None)] * n_classes,
            method="highs",
        )
        if found.status != 0:
            raise RuntimeError(f"The linear program was not solved: {found.message}")
        above, below = found.ineqlin.marginals.reshape(2, n_groups, n_classes)
        self.prices_ = (below - above) * n_rows / sizes[:, None]
        self.value_ = float(found.fun)
        return self

    def predict(self, class_proba: Any, group_proba: Any) -> IntArray:
        """Position of the class that is decided for, (n_rows,).

        Parameters
        ----------
        class_proba, group_proba
            As in `fit`, of the rows to decide on.
        """
        check_is_fitted(self, "prices_")
        risks, groups = self._read(class_proba, group_proba)
        decided: IntArray = (risks + groups @ self.prices_).argmin(axis=1)
        return decided

    def _read(self, class_proba: Any, group_proba: Any) -> tuple[FloatArray, FloatArray]:
        """Risk of each class with the noise, and the group probabilities."""
        chances = check_array(class_proba, dtype=np.float64, input_name="class_proba")
        groups = check_array(group_proba, dtype=np.float64, input_name="group_proba")
        check_consistent_length(chances, groups)
        rng = check_random_state(self.random_state)
        risks: FloatArray = 1.0 - chances + self.noise * rng.uniform(-0.5, 0.5, chances.shape)
        return risks, groups
