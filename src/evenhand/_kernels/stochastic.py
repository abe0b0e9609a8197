"""Single-row stochastic steps: averaged SGD and AC-SA, on (Lambda, V) >= 0 or on Phi itself.

The gradient of one row has rank one, `t (A pi)^T`, so a step costs O(n_constraints * n_groups + n_atoms)
and allocates nothing. Arrays of multipliers lie group by group, (n_signs, n_groups, n_constraints), so that
every inner loop runs over atoms; two signs are the paper's projected form, one is the composite form of
`evenhand.dual.forms`, whose steps end with the prox of a largest absolute value. Both kernels follow a table
of phases (see `solvers/schedules.py`), carry all that they need in their arguments, and may be cut
between any two rows: the bits of the result do not change. Their NumPy twins
are in `reference_stochastic.py`.
"""

import numpy as np

from evenhand._kernels.compiling import njit
from evenhand._kernels.exponential import exp2_block_into

IDENTITY, CUMULATIVE, FUNCTIONAL, DENSE = 0, 1, 2, 3  # entries of the last lie row by row in `scales`

_VECTORISE = {"nogil": True, "cache": True, "fastmath": True, "error_model": "numpy"}
_PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}


@njit(**_VECTORISE)
def _adjoint_into(tilt, multipliers, operator, scales):
    """`A^T y` for one vector y."""
    n_atoms = tilt.shape[0]
    if operator == IDENTITY:
        for j in range(n_atoms):
            tilt[j] = multipliers[j]
    elif operator == CUMULATIVE:
        running = 0.0
        tilt[n_atoms - 1] = 0.0
        for j in range(n_atoms - 2, -1, -1):
            running += scales[j] * multipliers[j]
            tilt[j] = running
    elif operator == FUNCTIONAL:
        for j in range(n_atoms):
            tilt[j] = scales[j] * multipliers[0]
    else:
        for j in range(n_atoms):
            tilt[j] = 0.0
        for r in range(multipliers.shape[0]):
            for j in range(n_atoms):
                tilt[j] += scales[r * n_atoms + j] * multipliers[r]


@njit(**_VECTORISE)
def _apply_into(image, masses, operator, scales):
    """`A x` for one vector x."""
    if operator == IDENTITY:
        for j in range(image.shape[0]):
            image[j] = masses[j]
    elif operator == CUMULATIVE:
        running = 0.0
        for j in range(image.shape[0]):
            running += masses[j]
            image[j] = running * scales[j]
    else:  # FUNCTIONAL has one row
        n_atoms = masses.shape[0]
        for r in range(image.shape[0]):
            total = 0.0
            for j in range(n_atoms):
                total += scales[r * n_atoms + j] * masses[j]
            image[r] = total


@njit(**_VECTORISE)
def _maximum(values):
    """Largest entry, by four running maxima: with one, each comparison would wait for the last."""
    a, b, c, d = values[0], values[0], values[0], values[0]
    n = values.shape[0]
    whole = n - n % 4
    for j in range(0, whole, 4):
        a = max(a, values[j])
        b = max(b, values[j + 1])
        c = max(c, values[j + 2])
        d = max(d, values[j + 3])
    for j in range(whole, n):
        a = max(a, values[j])
    return max(max(a, b), max(c, d))


@njit(**_VECTORISE)
def _softmax_into(logits, work):
    """Replace logits, in units of log 2, by unnormalised masses; return their sum."""
    policy, top, sums, exponents, scales = work
    largest = _maximum(logits)
    for j in range(logits.shape[0]):
        top[j] = largest
        sums[j] = 0.0
    exp2_block_into(policy, sums, top, exponents, scales)
    total = 0.0
    for j in range(logits.shape[0]):
        total += logits[j]
    return total


@njit(**_VECTORISE)
def _add_gradient_into(gradient, point, design, row, factor, model, work, image, imbalance):
    """Add `factor * t (A pi)^T` of one row, at `point`, to `gradient`."""
    mixing, loadings, offset, scale, operator, scales = model
    n_kept, n_groups = mixing.shape
    logits = work[0][0]
    for j in range(image.shape[0]):
        image[j] = 0.0
    for s in range(n_groups):
        t = 0.0
        for k in range(n_kept):
            t += mixing[k, s] * design[k, row]
        imbalance[s] = t
        t *= scale
        plus = point[0, s]
        if point.shape[0] == 2:
            minus = point[1, s]
            for j in range(image.shape[0]):
                image[j] += t * (plus[j] - minus[j])
        else:
            for j in range(image.shape[0]):
                image[j] += t * plus[j]
    _adjoint_into(logits, image, operator, scales)
    for j in range(logits.shape[0]):
        logits[j] += offset[j]
    for f in range(loadings.shape[0]):
        feature = design[n_kept + f, row]
        loading = loadings[f]
        for j in range(logits.shape[0]):
            logits[j] += feature * loading[j]
    total = _softmax_into(logits, work)
    _apply_into(image, logits, operator, scales)
    for s in range(n_groups):
        t = imbalance[s] * factor / total
        target = gradient[s]
        for j in range(image.shape[0]):
            target[j] += t * image[j]


@njit(**_VECTORISE)
def cut_into(values, radius):
    """Prox of `radius * max |values|`: cut at the height above which there is a sum of `radius`.

    Michelot's method: from the mean excess of all entries, leave out those below and take the mean anew.
    """
    total, n_above = 0.0, values.shape[0]
    for j in range(values.shape[0]):
        total += abs(values[j])
    if total <= radius:
        values[:] = 0.0
        return
    if radius <= 0.0:
        return
    height, higher = 0.0, (total - radius) / n_above
    while higher > height:
        height = higher
        total, n_above = 0.0, 0
        for j in range(values.shape[0]):
            size = abs(values[j])
            if size > height:
                total += size
                n_above += 1
        if n_above > 0:  # rounding may leave none above the largest
            higher = (total - radius) / n_above
    for j in range(values.shape[0]):
        values[j] = min(max(values[j], -height), height)


@njit(**_VECTORISE)
def _sgd_prox_into(iterate, average, gradient, slack, size, step, share, regularisation, centre):
    """`_sgd_update_into` in the composite form."""
    for s in range(gradient.shape[0]):
        w, mean, anchor, g = iterate[0, s], average[0, s], centre[0, s], gradient[s]
        for j in range(g.shape[0]):
            w[j] -= step * (g[j] / size + regularisation * w[j] - anchor[j])
        cut_into(w, step * slack[s])
        for j in range(g.shape[0]):
            mean[j] += share * (w[j] - mean[j])
        gradient[s, :] = 0.0


@njit(**_VECTORISE)
def _acsa_prox_into(
    iterate, aggregate, middle, gradient, slack, size, pull, step, alpha, regularisation, centre
):
    """`_acsa_update_into` in the composite form."""
    for s in range(gradient.shape[0]):
        w, ag, m, anchor, g = iterate[0, s], aggregate[0, s], middle[0, s], centre[0, s], gradient[s]
        for j in range(g.shape[0]):
            full = g[j] / size + regularisation * m[j] - anchor[j]
            w[j] += pull * (m[j] - w[j]) - step * full
        cut_into(w, step * slack[s])
        for j in range(g.shape[0]):
            ag[j] += alpha * (w[j] - ag[j])
        gradient[s, :] = 0.0


@njit(**_VECTORISE)
def _sgd_update_into(iterate, average, gradient, slack, size, step, share, regularisation, centre):
    """One projected step, and the running mean of the iterates; clears `gradient`."""
    if iterate.shape[0] == 1:
        _sgd_prox_into(iterate, average, gradient, slack, size, step, share, regularisation, centre)
        return
    for s in range(gradient.shape[0]):
        for sign in range(2):
            slope = (1.0 - 2.0 * sign) / size
            w, mean, anchor = iterate[sign, s], average[sign, s], centre[sign, s]
            g = gradient[s]
            for j in range(g.shape[0]):
                full = slope * g[j] + slack[s] + regularisation * w[j] - anchor[j]
                w[j] = max(w[j] - step * full, 0.0)
                mean[j] += share * (w[j] - mean[j])
        gradient[s, :] = 0.0


@njit(**_VECTORISE)
def _acsa_middle_into(middle, iterate, aggregate, weight):
    """`w_md = (1 - weight) w_ag + weight w`."""
    for sign in range(middle.shape[0]):
        for s in range(middle.shape[1]):
            m, w, ag = middle[sign, s], iterate[sign, s], aggregate[sign, s]
            for j in range(m.shape[0]):
                m[j] = ag[j] + weight * (w[j] - ag[j])


@njit(**_VECTORISE)
def _acsa_update_into(
    iterate, aggregate, middle, gradient, slack, size, pull, step, alpha, regularisation, centre
):
    """`w <- ((1 - pull) w + pull w_md - step grad)_+` and `w_ag`; clears `gradient`."""
    if iterate.shape[0] == 1:
        _acsa_prox_into(
            iterate, aggregate, middle, gradient, slack, size, pull, step, alpha, regularisation, centre
        )
        return
    for s in range(gradient.shape[0]):
        for sign in range(2):
            slope = (1.0 - 2.0 * sign) / size
            w, ag, m, anchor = iterate[sign, s], aggregate[sign, s], middle[sign, s], centre[sign, s]
            g = gradient[s]
            for j in range(g.shape[0]):
                full = slope * g[j] + slack[s] + regularisation * m[j] - anchor[j]
                w[j] = max(w[j] + pull * (m[j] - w[j]) - step * full, 0.0)
                ag[j] += alpha * (w[j] - ag[j])
        gradient[s, :] = 0.0


@njit(**_PLAIN)
def _workspace(n_atoms, shape):
    """Scratch of one call: of the softmax, `A^T` or `A` of a vector, and the imbalance of a row."""
    exponents = np.empty(n_atoms, np.int64)
    softmax = (
        np.empty((1, n_atoms)),
        np.empty(n_atoms),
        np.empty(n_atoms),
        exponents,
        exponents.view(np.float64),
    )
    return softmax, np.empty(shape[1]), np.empty(shape[0])


@njit(**_PLAIN)
def _enter(update, iterate, output, centre, regularisation, period, anchor):
    """What happens before an update: anchor the phase, restart the round. Returns the regularisation."""
    if update == 0 and anchor > 0.0:
        regularisation += anchor
        centre += anchor * output
    if update % period == 0:
        iterate[:] = output
    return regularisation


@njit(**_PLAIN)
def sgd_steps_into(
    iterate, output, centre, gradient, cursor, regularisation,
    design, factors, model, slack, batch_size, is_last, lengths, constants,
):  # fmt: skip
    """Averaged SGD over the rows of `design`, in order; returns the cursor and the regularisation.

    The cursor is (phase, updates done in it, rows of the batch seen so far). A row of `lengths` is
    (updates, updates in a round) and one of `constants` (anchor, step, decay): the step of the t-th
    update of a round is `step * t ** -decay`. `is_last` closes the last batch though it be short.
    """
    phase, update, pending = cursor
    work, image, imbalance = _workspace(model[2].shape[0], gradient.shape)
    n_rows = design.shape[1]
    for row in range(n_rows):
        n_updates, period = lengths[phase]
        anchor, step, decay = constants[phase]
        if pending == 0:
            regularisation = _enter(update, iterate, output, centre, regularisation, period, anchor)
        _add_gradient_into(gradient, iterate, design, row, factors[row], model, work, image, imbalance)
        pending += 1
        if pending < batch_size and not (is_last and row == n_rows - 1):
            continue
        t = update % period + 1
        if decay > 0.0:
            step *= t**-decay
        _sgd_update_into(iterate, output, gradient, slack, pending, step, 1.0 / t, regularisation, centre)
        pending = 0
        update += 1
        if update == n_updates:
            phase, update = phase + 1, 0
    return (phase, update, pending), regularisation


@njit(**_PLAIN)
def acsa_steps_into(
    iterate, output, centre, gradient, cursor, regularisation,
    design, factors, model, slack, batch_size, is_last, lengths, constants,
):  # fmt: skip
    """AC-SA over the rows of `design`, in order; returns the cursor and the regularisation.

    As `sgd_steps_into`, with (anchor, smoothness, convexity) in a row of `constants`: the M and mu of
    the paper's algorithm. `output` is `w_ag`.
    """
    phase, update, pending = cursor
    work, image, imbalance = _workspace(model[2].shape[0], gradient.shape)
    middle = np.empty_like(iterate)
    alpha, gamma = 0.0, 0.0
    n_rows = design.shape[1]
    for row in range(n_rows):
        n_updates, period = lengths[phase]
        anchor, smoothness, mu = constants[phase]
        if pending == 0:
            regularisation = _enter(update, iterate, output, centre, regularisation, period, anchor)
        if pending == 0 or row == 0:  # a call may begin inside a batch
            t = update % period + 1
            alpha = 2.0 / (t + 1)
            gamma = 4.0 * smoothness / (t * (t + 1.0))
            weight = alpha * ((1.0 - alpha) * mu + gamma) / (gamma + (1.0 - alpha**2) * mu)
            _acsa_middle_into(middle, iterate, output, weight)
        _add_gradient_into(gradient, middle, design, row, factors[row], model, work, image, imbalance)
        pending += 1
        if pending < batch_size and not (is_last and row == n_rows - 1):
            continue
        step = alpha / (mu + gamma)
        _acsa_update_into(
            iterate, output, middle, gradient, slack, pending, step * mu, step, alpha,
            regularisation, centre,
        )  # fmt: skip
        pending = 0
        update += 1
        if update == n_updates:
            phase, update = phase + 1, 0
    return (phase, update, pending), regularisation
