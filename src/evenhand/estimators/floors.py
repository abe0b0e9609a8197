"""Find the bonus that keeps a floor under the share of people who are selected, on the rows of a fit."""

from dataclasses import replace
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows
from evenhand.certificates import Certificate
from evenhand.dual.floors import RateFloor, group_rates, least_bonus
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.metrics.measure import policy_blocks
from evenhand.solvers import Solver, Status, run


def keep_floor(step: ParityStep, solver: Solver[Any], rows: Rows) -> ParityStep:
    """The step with the least bonus that keeps the floor of its cost; as it is where there is none.

    The bonus is the multiplier of the floor: for a floor under the share of everybody the step is the best
    one that keeps parity and floor. One bonus for all also lifts every group above its own floor (`EACH`),
    which is the best way at epsilon zero, and close to it otherwise.
    """
    cost = step.cost
    if not isinstance(cost, RateFloor):
        return step
    wanted = cost.wanted(rates_before(cost, step.grid.atoms, rows))
    start: list[FloatArray] = []

    def short(bonus: float) -> float:
        tried = replace(step, cost=replace(cost, bonus=bonus))
        result = run(solver, tried.problem(rows), start=start[-1] if start else None)
        if result.status is Status.STOPPED:
            raise KeyboardInterrupt
        start.append(result.multipliers)
        return float((rates_after(tried.policy(result.multipliers), rows) - wanted).min())

    bonus = least_bonus(short, cost.unit(step.grid))
    return replace(step, cost=replace(cost, bonus=float(bonus)))


def with_floor(certificate: Certificate, policy: SoftmaxPolicy, rows: Rows) -> Certificate:
    """The certificate of the problem with the floor, from that of the problem with the bonus.

    Any policy at parity has `risk - bonus * rate >= lower bound`, and one that keeps the floor a rate of at
    least that: its risk is at least `lower bound + bonus * floor`.
    """
    cost = policy.cost
    if not isinstance(cost, RateFloor) or cost.bonus == 0.0:
        return certificate
    before = rates_before(cost, policy.grid.atoms, rows)
    floor = before[-1] if isinstance(cost.least, str) else float(cost.least)
    paid = cost.bonus * float(rates_after(policy, rows)[-1])
    return replace(
        certificate,
        risk=certificate.risk + paid,
        entropic_risk=certificate.entropic_risk + paid,
        lower_bound=certificate.lower_bound + cost.bonus * floor,
        risk_bound=certificate.risk_bound + paid - cost.bonus * floor,
    )


def rates_before(cost: RateFloor, atoms: FloatArray, rows: Rows) -> FloatArray:
    """Rate of each group, and last of everybody, by the scores alone."""
    chosen = np.isin(cost.cheapest(rows.scores, atoms), cost.places).astype(np.float64)
    return group_rates(chosen, rows.group_proba, rows.weights)


def rates_after(policy: SoftmaxPolicy, rows: Rows) -> FloatArray:
    """The same by a policy whose cost has a floor."""
    assert isinstance(policy.cost, RateFloor)
    chances, places = np.empty(len(rows.scores)), list(policy.cost.places)
    for some, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        chances[some] = pmf[:, places].sum(axis=1)
    return group_rates(chances, rows.group_proba, rows.weights)
