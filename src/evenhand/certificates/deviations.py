"""How far a distance between two distributions can be from the one that samples show.

Two independent samples of n and k independent rows have the mean distributions F_n and G_k (of values, or
of the rows' own distributions). The population's largest gap is `D = sup_t |F(t) - G(t)|`, the samples' D_nk.

**From above** one point is enough. At any t the samples' gap is a difference of means of terms in [0, 1], so
by Hoeffding `P(|F_n - G_k|(t) + w < |F - G|(t)) <= exp(-2 w^2 / (1/n + 1/k))`. D_nk is at least the gap at t,
so D_nk + w is below the population's gap at t no more often; and D is the limit of rising gaps at some points
t_1, t_2, ..., so nor is it below D. No union over points is paid, and rows with a pmf need no argument of
their own. That is `shortfall_width`, the width of `method="hoeffding"`; `evenhand.certificates.melding` has
narrower ones, by the same argument of one point.

**From below** the error counts wherever it is: `D_nk - D <= E = sup_t |(F_n - F)(t) - (G_k - G)(t)|`. A width
w with `P(E > w) <= level` is the smaller of two, `excess_width`, each fixed by (n, k, level, number of
atoms) alone, so that choosing costs nothing:

1. Values. By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart `sup |F_n - F|` is stochastically at
   most Y_n with `P(Y_n > x) = min(1, 2 exp(-2 n x^2))`, whatever F. The samples are independent, so E is
   stochastically at most `Y_n + Y_k` with independent terms, and w is its quantile: up to a fifth less than
   the sum of two quantiles at half the level.

   Rows with distributions of their own (a pmf each). Draw one value from each: given the rows, the drawn
   gap has the averaged one as its mean, and a supremum is convex, so by Jensen
   `E_averaged <= mean of E_drawn, given the rows`. Hence `mean f(E_averaged) <= mean f(Y_n + Y_k)` for every
   increasing convex f. With `f(y) = (y - a)_+` Markov's inequality gives
   `P(E_averaged > w) <= mean (Y_n + Y_k - a)_+ / (w - a)`, which is the level at
   `w = a + mean (Y_n + Y_k - a)_+ / level`. The best a is the quantile, and w the mean of `Y_n + Y_k` beyond
   it: about a tenth more than the quantile.

2. Few atoms. Hoeffding at each atom but the last one, and the union over them.

**Total variation and Wasserstein-1** are largest gaps too, of means: over functions with values in [0, 1]
(the indicators of events), and over functions of slope at most one, which on atoms of range w have values
in an interval of length w. **From above** one function is again enough, the one at which the population's
gap is reached: `shortfall_width` holds as it is for TV, and times w for W1.

**From below** the error is `E = sup_f |(mean_n - mean) f - (mean_k - mean) f|`. One row of n can change it by
1 / n (times w), so McDiarmid's inequality bounds it by `mean E + sqrt((1/n + 1/k) log(1 / level) / 2)`:

1. TV on m atoms. E is half the sum of the atoms' absolute errors; that of atom j has a variance of at most
   `p_j (1 - p_j) / n + q_j (1 - q_j) / k`, whether rows have values or distributions, and by Cauchy and
   Schwarz `mean E <= 1/2 sqrt((m - 1) (1/n + 1/k))`, since `sum_j p_j (1 - p_j) <= 1 - 1/m`. Up to
   about 200 atoms Hoeffding for each of the `2^m - 2` events and the union over them are sharper.
2. W1. E is the area between two errors of distribution functions, each with a variance of at most
   `1 / 4n`, or `1 / 4k`: `mean E <= w/2 sqrt(1/n + 1/k)`. It is never above w times the error of the largest
   gap, so the smaller of the two widths is taken; again both are fixed before any row is seen.
"""

import math

from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betaincinv, erf

NEGLIGIBLE = 1e-18  # probability beyond which a tail is not added up


def shortfall_width(n_first: int, n_second: int, level: float) -> float:
    """Width w with `P(D_nk + w < D) <= level`: how far the samples may hide the population's gap.

    >>> round(shortfall_width(500, 500, 0.05), 4)
    0.0774
    """
    return min(1.0, math.sqrt((1.0 / n_first + 1.0 / n_second) * math.log(1.0 / level) / 2.0))


def excess_width(
    n_first: int, n_second: int, level: float, *, averaged: bool, n_atoms: int | None = None
) -> float:
    """Width w with `P(D_nk - w > D) <= level`: how far the samples may overstate the population's gap.

    Parameters
    ----------
    n_first, n_second : int
        Rows of the two samples.
    level : float
    averaged : bool
        Whether rows have distributions of their own rather than values.
    n_atoms : int or None
        Number of atoms, where they are known beforehand.

    Examples
    --------
    >>> round(excess_width(500, 500, 0.05, averaged=False), 4)
    0.1077
    >>> round(excess_width(500, 500, 0.05, averaged=True), 4)
    0.1171
    >>> round(excess_width(500, 500, 0.05, averaged=True, n_atoms=2), 4)
    0.0859
    """
    width = _quantile_of_sum(n_first, n_second, level)
    if averaged:
        last = _split_bound(n_first, n_second, NEGLIGIBLE)
        beyond, _ = quad(sum_tail, width, last, args=(n_first, n_second), epsabs=1e-12, epsrel=1e-9)
        width += beyond / level
    if n_atoms is not None:
        n_points = max(1, n_atoms - 1)
        spread = math.sqrt((1.0 / n_first + 1.0 / n_second) / 2.0)
        width = min(width, spread * math.sqrt(math.log(2.0 * n_points / level)))
    return min(width, 1.0)


def tv_excess_width(n_first: int, n_second: int, level: float, n_atoms: int) -> float:
    """Width w with `P(TV_nk - w > TV) <= level`, on atoms that are known beforehand.

    >>> round(tv_excess_width(500, 500, 0.05, n_atoms=2), 4)  # two atoms have one gap
    0.0859
    >>> round(tv_excess_width(500, 500, 0.05, n_atoms=101), 4)
    0.3821
    """
    root = math.sqrt(1.0 / n_first + 1.0 / n_second)
    mean = 0.5 * math.sqrt(n_atoms - 1.0)
    n_events = max(2**n_atoms - 2, 1)
    by_union = math.sqrt((math.log(n_events) + math.log(1.0 / level)) / 2.0)
    return min(1.0, root * min(by_union, mean + math.sqrt(math.log(1.0 / level) / 2.0)))


def w1_excess_width(
    n_first: int, n_second: int, level: float, *, averaged: bool, n_atoms: int | None = None
) -> float:
    """Width w with `P(W1_nk - w > W1) <= level`, for atoms of range one; parameters as in `excess_width`.

    >>> round(w1_excess_width(500, 500, 0.05, averaged=True), 4)
    0.109
    """
    by_mean = 0.5 + math.sqrt(math.log(1.0 / level) / 2.0)
    by_gap = excess_width(n_first, n_second, level, averaged=averaged, n_atoms=n_atoms)
    return min(by_gap, math.sqrt(1.0 / n_first + 1.0 / n_second) * by_mean)


def sup_excess_width(
    n_first: int, n_second: int, level: float, *, averaged: bool, n_atoms: int | None = None
) -> float:
    """Width w with `P(sup_nk - w > sup) <= level`, of the largest gap at one point; as in `excess_width`.

    The mass of a point is a difference of two values of the distribution function; on few atoms Hoeffding's
    inequality at each of them is sharper.

    >>> round(sup_excess_width(500, 500, 0.05, averaged=True, n_atoms=3), 4)
    0.0979
    """
    width = 2.0 * excess_width(n_first, n_second, level, averaged=averaged)
    if n_atoms is not None:
        spread = math.sqrt((1.0 / n_first + 1.0 / n_second) / 2.0)
        width = min(width, spread * math.sqrt(math.log(2.0 * n_atoms / level)))
    return min(width, 1.0)


def mean_excess_width(n_first: int, n_second: int, level: float) -> float:
    """Width w with `P(|gap of means| - w > the population's) <= level`, for atoms of range one (Hoeffding).

    >>> round(mean_excess_width(500, 500, 0.05), 4)
    0.0859
    """
    return shortfall_width(n_first, n_second, 0.5 * level)


def sum_tail(x: float, n_first: int, n_second: int) -> float:
    """`P(Y_n + Y_k > x)` for the two independent variables of the module's text, in closed form.

    With N = n + k, completing the square turns the convolution of the two tails into an integral of
    `y exp(-2 N (y - m)^2)`, `m = n x / N`, over the y of Y_k that leave Y_n
    above its least value.

    >>> sum_tail(0.0, 100, 100)
    1.0
    """
    least_first, least_second = _least(n_first), _least(n_second)
    if x <= least_first + least_second:
        return 1.0
    total = n_first + n_second
    middle = n_first * x / total
    low, high = least_second - middle, x - least_first - middle
    mass = (math.exp(-2.0 * total * low**2) - math.exp(-2.0 * total * high**2)) / (4.0 * total)
    root = math.sqrt(2.0 * total)
    mass += middle * math.sqrt(math.pi / (8.0 * total)) * float(erf(root * high) - erf(root * low))
    both = 16.0 * n_second * math.exp(-2.0 * n_first * n_second / total * x**2) * mass
    return min(1.0, both + 2.0 * math.exp(-2.0 * n_second * (x - least_first) ** 2))


def share_interval(count: int, n_rows: int, level: float) -> tuple[float, float]:
    """Clopper-Pearson interval of a share: each side is missed with probability `level` at most.

    >>> low, high = share_interval(30, 100, 0.025)
    >>> round(low, 4), round(high, 4)
    (0.2124, 0.3998)
    """
    low = 0.0 if count == 0 else float(betaincinv(count, n_rows - count + 1, level))
    high = 1.0 if count == n_rows else float(betaincinv(count + 1, n_rows - count, 1.0 - level))
    return low, high


def _least(n_rows: int) -> float:
    """The smallest value of Y_n, where its tail leaves one."""
    return math.sqrt(math.log(2.0) / (2.0 * n_rows))


def _split_bound(n_first: int, n_second: int, level: float) -> float:
    """Sum of the two quantiles at half of the level: never below the quantile of the sum."""
    return math.sqrt(math.log(4.0 / level) / 2.0) * (1.0 / math.sqrt(n_first) + 1.0 / math.sqrt(n_second))


def _quantile_of_sum(n_first: int, n_second: int, level: float) -> float:
    low = _least(n_first) + _least(n_second)
    high = _split_bound(n_first, n_second, level)

    def excess(x: float) -> float:
        return sum_tail(x, n_first, n_second) - level

    return float(brentq(excess, low, high, xtol=1e-15))
