"""Read-only attributes of models that have a fitted parity step."""

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from evenhand._utils.labels import label_array
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.certificates import Certificate
from evenhand.data.draws import HashArray
from evenhand.dual.notion import ParityNotion
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.price import Price
from evenhand.estimators.step_fit import REMEDIES, FittedStep
from evenhand.estimators.streaming.state import Stream
from evenhand.solvers import SolverResult, make_solver
from evenhand.solvers.stochastic import StochasticSolver

T = TypeVar("T")


class StepResults(ABC):
    """Attributes of a model that has a `FittedStep`, and the text of `print(model)`.

    All attributes are read from `step_`, so they are always consistent.
    """

    step_: FittedStep
    stream_: Stream  # only after `partial_fit`
    solver: Any
    tol: float
    max_iter: int | None

    @property
    def atoms_(self) -> FloatArray:
        """The values that can be predicted, in increasing order, (n_atoms,)."""
        return self.step_.step.grid.atoms

    @property
    def bounds_(self) -> tuple[float, float]:
        """Range of the predictions, (low, high); scores outside are moved to the nearest bound."""
        return self.step_.step.grid.bounds

    @property
    def beta_(self) -> float:
        """Inverse temperature, on the scale where the atoms span [-1, 1]."""
        return self.step_.step.beta

    @property
    def groups_(self) -> AnyArray:
        """Labels of the groups, (n_groups,); `(stratum, group)` with strata."""
        return label_array(self.step_.groups)

    @property
    def n_groups_(self) -> int:
        """Number of groups."""
        return len(self.step_.groups)

    @property
    def group_prior_(self) -> FloatArray:
        """Share of each group in the population, (n_groups,)."""
        return self.step_.step.group_prior

    @property
    def epsilon_(self) -> FloatArray:
        """The requested tolerance of each group, (n_groups,)."""
        return self.step_.epsilon

    @property
    def tolerance_(self) -> FloatArray:
        """The tolerance of each group for which the step was solved on its rows, (n_groups,)."""
        return self.step_.step.epsilon

    @property
    def n_rows_(self) -> int:
        """Number of rows that the step was fitted on."""
        return self.step_.n_rows

    @property
    def n_clipped_(self) -> int:
        """Number of scores outside the bounds."""
        return self.step_.n_clipped

    @property
    def n_passes_(self) -> int:
        """Number of passes over the rows of a table on a cluster."""
        return _there(self.step_.n_passes, "n_passes_")

    @property
    def multipliers_(self) -> FloatArray:
        """Dual variables Phi on the scale where the atoms span [-1, 1], (n_constraints, n_groups)."""
        return self.step_.multipliers

    @property
    def tilt_(self) -> FloatArray:
        """`theta = A^T Phi`, what the multipliers add to the logits of the policy, (n_atoms, n_groups)."""
        return self.step_.policy.tilt

    @property
    def policy_(self) -> SoftmaxPolicy:
        """The fitted policy: a distribution over the atoms for each row."""
        return self.step_.policy

    @property
    def draw_key_(self) -> HashArray:
        """Key of the random draws of `predict`."""
        return self.step_.draw_key

    @property
    def parity_(self) -> str | ParityNotion:
        """The parity notion, fitted to the scores if it depends on them."""
        return self.step_.step.parity

    @property
    def result_(self) -> SolverResult:
        """Status, number of iterations and objective of the solver."""
        return _there(self.step_.result, "result_")

    @property
    def certificate_(self) -> Certificate:
        """Violation and optimality gap on the rows of the fit, and the out-of-sample estimate."""
        return _there(self.step_.certificate, "certificate_")

    @property
    def price_(self) -> Price:
        """Risk and distribution of the predictions, before and after the parity step."""
        return _there(self.step_.price, "price_")

    def _step_faults(self) -> Iterator[str]:
        """Check the fitted step and the stream, and that the stream's solver is within its planned rows."""
        step, stream = vars(self).get("step_"), vars(self).get("stream_")
        if step is None and stream is None:
            return
        if not isinstance(step, FittedStep):
            yield "its step_ is not a fitted step"
        if stream is None:
            return
        if not isinstance(stream, Stream):
            yield "its stream_ is not a stream"
        elif step is None or len(stream.step.group_prior) != len(step.groups):
            yield "its stream_ has other groups"
        if stream.record is None or stream.record.solver_state is None:
            return
        solver = make_solver(self.solver, tol=self.tol, max_iter=self.max_iter)
        if isinstance(solver, StochasticSolver) and stream.record.solver_state.outlasts_plan(
            solver.batch_size
        ):
            yield "the plan of its solver is shorter than the rows that it expects"

    def _remedies(self) -> Sequence[str]:
        """Return what a user of this model can do if epsilon is out of reach."""
        return REMEDIES

    def _estimate_text(self) -> str:
        """Return a text with the estimate for new data; empty before a fit."""
        if not hasattr(self, "certificate_"):
            return ""
        certificate = self.certificate_
        if certificate.out_of_sample is not None:
            return certificate.out_of_sample.text(self._remedies())
        return (
            "No estimate for new data: epsilon is for the rows of the parity step, assuming their group "
            "probabilities are correct. The largest distance on these rows is "
            f"{certificate.violation.max():.4g}."
        )

    def __str__(self) -> str:
        text = self._estimate_text()
        return f"{self!r}\n{text}" if text else repr(self)


def _there(value: T | None, name: str) -> T:
    """Return the value, or raise an `AttributeError` if a stream has too few rows for results."""
    if value is None:
        raise AttributeError(
            f"{name} is not available: the stream has too few rows so far, or this fit does not compute it."
        )
    return value
