"""Classes in model files: this package's and others' take part alike, and each says what must hold for it."""

import enum
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, load, save, solvers
from evenhand._utils.stored import find_fault, is_own, stored_classes, stored_name
from evenhand.calibration import JointCalibrator
from evenhand.dual import costs
from evenhand.dual.parity import PARITIES, ParityNotion
from evenhand.estimators.models import FittedModel
from evenhand.estimators.scorer import Scorer
from evenhand.estimators.strata import Strata
from evenhand.estimators.training_data import GroupSummary
from evenhand.modelfile import ModelFileError, Stored, classes
from evenhand.modelfile.codec import Decoder, Encoder
from evenhand.modelfile.container import Container, pack
from evenhand.solvers import Batch, PlainState, Solver, Status
from evenhand.solvers.stochastic import StochasticSolver

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([1.0, 2.0], size=120)
SCORES = PROBA[:, 0] + RNG.normal(size=120)


# classes from outside


@dataclass(frozen=True)
class Descent(Solver[PlainState]):
    """Gradient steps of one length: enough of a solver to be saved."""

    length: float = 0.1
    n_steps: int = 5

    name: ClassVar[str] = "descent"

    def faults(self) -> Iterator[str]:
        if not self.length > 0:
            yield "its length is not positive"

    def init(self, problem, start):
        return PlainState(np.zeros(problem.multipliers_shape))

    def step(self, problem, state):
        return PlainState(state.multipliers + self.length, state.n_iter + 1)

    def done(self, problem, state):
        return Status.BUDGET_SPENT if state.n_iter >= self.n_steps else None


@dataclass(frozen=True, slots=True)
class Doubled(costs.Absolute):
    """Twice the absolute cost, beyond a number of the user's."""

    beyond: float = 0.5

    def table(self, scores, atoms):
        away = np.abs(scores[:, None] - atoms)
        return np.where(away > self.beyond, 2.0 * away, away)


@dataclass(frozen=True)
class Relative(costs.Cost):
    """Distance over the size of the score."""

    least: float = 0.2

    def table(self, scores, atoms):
        return np.abs(scores[:, None] - atoms) / np.maximum(np.abs(scores), self.least)[:, None]


@dataclass(frozen=True)
class ShareAbove(ParityNotion):
    """Equal shares above a few cutoffs."""

    cutoffs: tuple[float, ...]

    name = "share_above"

    def operator(self, atoms):
        return np.array([atoms > cutoff for cutoff in self.cutoffs])


class Colour(Stored, enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Palette(Stored):
    colours: tuple[Colour, ...]
    inner: "Palette | None" = None
    n_colours: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_colours", len(self.colours))

    def faults(self) -> Iterator[str]:
        if not all(isinstance(colour, Colour) for colour in self.colours):
            yield "its colours are none"


class Bare(Solver[PlainState]):
    """A solver that does not say what it consists of."""

    name = "bare"
    init = step = done = Descent.done


class Inheriting(Batch):
    """It inherits the fields of a dataclass, and may have more of its own."""


def fit(**options):
    return ParityPostprocessor(**{"atoms": 9, "epsilon": 0.1, **options}).fit(SCORES, PROBA)


def round_trip(model, path):
    save(model, path)
    return load(path)


def in_memory(value):
    encoder = Encoder()
    tree = json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False))
    return Decoder(encoder.members, {}).decode(tree, "value")


def own_solvers():
    known = stored_classes().values()
    return [cls for cls in known if issubclass(cls, Solver) and is_own(cls) and classes.is_object(cls)]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [*own_solvers(), Descent], ids=lambda cls: cls.__name__)
def test_a_solver_object_comes_back(cls, tmp_path):
    model = fit(solver=cls(n_steps=500, random_state=0) if issubclass(cls, StochasticSolver) else cls())
    again = round_trip(model, tmp_path / "model")
    assert again.solver == model.solver
    assert again.predict_pmf(SCORES, PROBA).tobytes() == model.predict_pmf(SCORES, PROBA).tobytes()
    assert again.fit(SCORES, PROBA).multipliers_.tobytes() == model.multipliers_.tobytes()


def test_every_solver_that_is_exported_is_among_them():
    exported = [getattr(solvers, name) for name in solvers.__all__]
    found = {cls for cls in exported if isinstance(cls, type) and issubclass(cls, Solver)}
    assert found == {Solver, *own_solvers()}


@pytest.mark.parametrize("cost", [Doubled(0.7), Relative(0.3)])
def test_a_cost_from_outside_comes_back(cost, tmp_path):
    model = fit(cost=cost)
    again = round_trip(model, tmp_path / "model")
    assert again.cost == again.policy_.cost == cost
    assert again.predict_pmf(SCORES, PROBA).tobytes() == model.predict_pmf(SCORES, PROBA).tobytes()


@pytest.mark.parametrize("parity", [ShareAbove((0.0, 0.5)), *PARITIES.values()], ids=lambda one: one.name)
def test_a_parity_notion_comes_back(parity, tmp_path):
    model = fit(parity=parity)
    again = round_trip(model, tmp_path / "model")
    assert again.parity == again.parity_ == parity
    assert again.predict_pmf(SCORES, PROBA).tobytes() == model.predict_pmf(SCORES, PROBA).tobytes()
    assert again.fit(SCORES, PROBA).multipliers_.tobytes() == model.multipliers_.tobytes()


def test_a_stream_goes_on_with_the_solver_the_cost_and_the_notion_from_its_file(tmp_path):
    rows = np.tile(SCORES, 40), np.tile(PROBA, (40, 1))
    asked = {"solver": Batch(tol=1e-5), "cost": Doubled(), "parity": ShareAbove((0.0,))}
    model = ParityPostprocessor(atoms=9, **asked).partial_fit(*rows)
    again = round_trip(model, tmp_path / "model")
    for one in (model, again):
        one.partial_fit(*rows)
    assert again.multipliers_.tobytes() == model.multipliers_.tobytes()


def test_parts_of_a_class_from_outside_come_back():
    again = in_memory([Palette((Colour.RED, Colour.BLUE), Palette(()))])[0]
    assert (again.colours, again.n_colours) == ((Colour.RED, Colour.BLUE), 2)
    assert type(again.inner) is Palette


def test_the_class_of_the_format_s_page_takes_part(project_root):
    words = (project_root / "docs" / "reference" / "model-file.md").read_text()
    page = words.partition("## A class of your own")[2]
    code = page.partition("```python\n")[2].partition("```")[0]
    space = {"__name__": "mymodule"}
    exec(code, space)
    level = space["Level"](0.3)
    assert in_memory(level) == level
    assert "`mymodule.Level`" in page
    assert stored_name(type(level)) == "mymodule.Level"
    with pytest.raises(TypeError, match="its share is not between 0 and 1"):
        in_memory(space["Level"](2.0))


# names


def test_classes_of_this_package_go_by_their_name_and_others_by_their_module_too():
    assert stored_name(Batch) == "Batch"
    assert stored_name(Doubled) == f"{__name__}.Doubled"
    assert stored_classes()[stored_name(Doubled)] is Doubled  # which slots made a second time
    assert stored_name(enum.Enum) == "enum.Enum"


def test_two_classes_of_this_package_cannot_have_one_name():
    with pytest.raises(TypeError, match=r"evenhand\.solvers\.batch and evenhand\.elsewhere both define"):
        type("Batch", (Stored,), {"__module__": "evenhand.elsewhere"})
    assert stored_classes()["Batch"] is Batch


MODULE = """
from dataclasses import dataclass
from evenhand.dual.costs import Absolute

@dataclass(frozen=True)
class Mine(Absolute):
    factor: float = 3.0
"""


def test_a_class_that_is_not_defined_yet_is_named_and_nothing_is_imported_for_it(tmp_path):
    (tmp_path / "mycosts.py").write_text(MODULE)
    rows = "import numpy as np; rows = np.linspace(0, 1, 50), np.tile([[0.8, 0.2], [0.3, 0.7]], (25, 1))\n"

    def run(code):
        command = [sys.executable, "-c", "import sys, evenhand as eh\n" + rows + code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    saved = run(
        "import mycosts\nmodel = eh.ParityPostprocessor(cost=mycosts.Mine(2.0), atoms=5).fit(*rows)\n"
        "eh.save(model, 'model'); print(model.predict_pmf(*rows).tobytes().hex())"
    )
    refused = run(
        "try: eh.load('model')\n"
        "except eh.modelfile.ModelFileError as error: print(error, 'mycosts' in sys.modules)"
    )
    assert "names 'mycosts.Mine'" in refused
    assert refused.endswith("import the module that defines it first. False")
    assert run("import mycosts; print(eh.load('model').predict_pmf(*rows).tobytes().hex())") == saved


@pytest.mark.parametrize(
    "name",
    [
        "Solver",
        "StochasticSolver",
        "SolvedStep",
        "StepResults",
        "ParityEstimator",
        "Cost",
        f"{__name__}.Bare",
        "Stored",
    ],
)
@pytest.mark.parametrize("kind", ["object", "model"])
def test_bases_and_classes_without_fields_are_not_built(kind, name):
    parts = {"fields": {}} if kind == "object" else {"params": {}, "fitted": {}}
    with pytest.raises(ModelFileError, match="not a class of a model file"):
        Decoder({}, {}).decode({kind: {"class": name, **parts}}, "value")


# faults


@pytest.mark.parametrize("value", [Bare(), Inheriting()], ids=lambda value: type(value).__name__)
def test_a_class_that_is_no_dataclass_is_not_saved_and_told_what_to_do(value, tmp_path):
    with pytest.raises(TypeError, match=r"ParityPostprocessor\.solver is a .*decorate it with @dataclass"):
        save(ParityPostprocessor(solver=value), tmp_path / "model")


def test_what_a_class_finds_fault_with_is_neither_saved_nor_loaded(tmp_path):
    with pytest.raises(TypeError, match=r"solver cannot be saved: its length is not positive\."):
        save(ParityPostprocessor(solver=Descent(-1.0)), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    tree = Encoder().encode(Descent(1.0), "value")
    tree["object"]["fields"]["length"] = -1.0
    with pytest.raises(ModelFileError, match=r"value \(.*Descent\) is not a model's: its length is not posi"):
        Decoder({}, {}).decode(tree, "value")


@pytest.mark.parametrize("length", ["text", None, [1]])
def test_a_check_that_fails_is_a_fault(length):
    tree = Encoder().encode(Descent(), "value")
    tree["object"]["fields"]["length"] = length
    with pytest.raises(ModelFileError, match="TypeError while it was checked"):
        Decoder({}, {}).decode(tree, "value")


def test_a_constructor_that_fails_is_an_error_about_the_file():
    tree = Encoder().encode(Palette(()), "value")
    tree["object"]["fields"]["colours"] = 3
    with pytest.raises(ModelFileError, match=r"value \(.*Palette\) cannot be: .*no len"):
        Decoder({}, {}).decode(tree, "value")


def test_a_function_is_not_a_cost_of_any_file(tmp_path):
    def squares(scores, atoms):
        return (scores[:, None] - atoms) ** 2

    for cost, where in ((squares, "cost"), (costs.Custom(squares), r"cost\.function")):
        with pytest.raises(TypeError, match=rf"\.{where} is a builtins\.function, which cannot be saved"):
            save(ParityPostprocessor(cost=cost), tmp_path / "model")
    forged = {"object": {"class": "Custom", "fields": {"function": "squares"}}}
    with pytest.raises(ModelFileError, match="its cost is a function"):
        Decoder({}, {}).decode(forged, "value")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 0, "batch_size must be a positive integer"),
        ("batch_size", "x", "batch_size must be a positive integer"),
        ("sampling", 3, "sampling must be"),
        ("inner", 3, r"inner must be AcSa\(\)"),
        ("regularisation", "x", "while it was checked"),
    ],
)
def test_parameters_that_no_solver_can_take_are_refused_in_a_file(name, value, message, tmp_path):
    path = tmp_path / "model"
    save(ParityPostprocessor(solver=solvers.Sgd3()), path)
    container = Container(path.read_bytes())
    tree = json.loads(container.unpack()["model.json"])
    tree["model"]["params"]["solver"]["object"]["fields"][name] = value
    path.write_bytes(pack({"model.json": json.dumps(tree).encode()}, container.manifest))
    with pytest.raises(ModelFileError, match=message):
        load(path)


ONES = np.ones(2)
MAP = JointCalibrator(
    "softmax", -ONES, ONES, 0 * ONES, ONES, np.eye(2, dtype=np.int64), np.ones((3, 2)), np.zeros(3)
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": "magic"}, "link"),
        ({"powers": 3}, "powers"),
        ({"powers": np.eye(2)}, "table of integers"),
        ({"powers": np.array([[0, -1], [1, 0]])}, "those of terms"),
        ({"low": np.ones(3)}, "one number for each input"),
        ({"scale": 0 * ONES}, "scales are not positive"),
        ({"coefficients": np.ones((3, 3))}, "shapes of its coefficients"),
        ({"offsets": np.zeros((3, 1))}, "coefficients are not arrays"),
        ({"offsets": np.array([0.0, np.nan, 0.0])}, "not finite"),
    ],
)
def test_a_calibrator_that_cannot_be_has_a_fault(change, message):
    assert find_fault(MAP) is None
    assert message in find_fault(replace(MAP, **change))


def models():
    """A scorer of a regression, and one of classes, as fits leave them."""
    strata = Strata(("sex",), (("f", "m"),), separate=False)
    rows, codes = PROBA, np.arange(120) % 2
    outcome = FittedModel(LinearRegression().fit(rows, SCORES), None)
    group = FittedModel(LogisticRegression().fit(rows, codes), ("f", "m"), positions=True)
    return Scorer(outcome, [group], strata)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": None}, "no model of the outcome"),
        ({"strata": None}, "no strata"),
        ({"groups": ()}, "not a list of models"),
        ({"groups": ["model"]}, "not a list of models"),
        ({"groups": []}, "one model of the group for each attribute"),
        ({"aware": 1}, "true nor false"),
        ({"aware": True}, "one model of the group for each attribute"),
        ({"strata": Strata(("sex",), (("f", "x"),), separate=False)}, "labels of its models of the group"),
        ({"strata": Strata(("sex",), (("f", "m"),), separate=False, classes=(0, 1))}, "classes of its model"),
    ],
)
def test_a_scorer_that_cannot_be_has_a_fault(change, message):
    assert find_fault(models()) is None
    assert message in find_fault(replace(models(), **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": []}, "no predict"),
        ({"labels": ("f", "m")}, "no predict_proba"),
        ({"labels": ["f", "m"], "model": LogisticRegression()}, "not a tuple"),
        ({"positions": 0}, "true nor false"),
        ({"calibrator": "map"}, "not a JointCalibrator"),
    ],
)
def test_a_fitted_model_that_cannot_be_has_a_fault(change, message):
    outcome = models().outcome
    assert find_fault(outcome) is None
    assert message in find_fault(replace(outcome, **change))


SUMMARY = GroupSummary(120, 100, ("f", "m"), np.array([60.0, 40.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_rows": -1}, "not whole numbers"),
        ({"n_known": 1.5}, "not whole numbers"),
        ({"groups": ["f", "m"]}, "one number for each group"),
        ({"counts": np.array([60.0, np.nan])}, "one number for each group"),
        ({"soft": "no"}, "true nor false"),
    ],
)
def test_a_summary_of_groups_that_cannot_be_has_a_fault(change, message):
    assert find_fault(SUMMARY) is None
    assert message in find_fault(replace(SUMMARY, **change))


BROKEN_PARTS = [
    ("certificate_", "epsilon", np.zeros(3), "one number for each group"),
    ("certificate_", "calibration", 3, "not a diagnosis"),
    ("result_", "status", 3, "status"),
    ("result_", "violation", np.zeros(3), "shape of its multipliers"),
    ("certificate_", "out_of_sample", 3, "not an estimate"),
    ("step_", "epsilon", np.array([-1.0, 0.0]), "tolerances"),
    ("step_", "multipliers", np.full((8, 2), np.nan), "multipliers"),
    ("step_", "draw_key", np.zeros(2), "draw_key"),
    ("step_", "groups", (0, 1, 2), "2 labels"),
    ("step_", "groups", [0, 1], "2 labels"),
    ("step_", "n_rows", -1, "counts"),
    ("step_", "n_rows", 0, "counts"),
    ("step_", "result", 3, "wrong type"),
    ("step_", "price", "free", "wrong type"),
    ("step_.step", "epsilon", np.array([-1.0, 0.0]), "tolerances"),
    ("step_.step", "beta", 0.0, "beta"),
    ("policy_", "temperature", "hot", "temperature"),
]


@pytest.mark.parametrize(("part", "name", "value", "message"), BROKEN_PARTS)
def test_a_part_of_a_model_that_cannot_be_has_a_fault(part, name, value, message):
    sound = attrgetter(part)(fit())
    assert find_fault(sound) is None
    assert message in find_fault(replace(sound, **{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"), [("parity", "none", "Unknown parity"), ("grid", None, "NoneType")]
)
def test_a_step_without_a_notion_or_a_grid_is_not_built(name, value, message):
    encoder = Encoder()
    tree = encoder.encode(fit().step_.step, "value")
    assert Decoder(encoder.members, {}).decode(tree, "value").beta == fit().beta_
    tree["object"]["fields"][name] = value
    with pytest.raises(ModelFileError, match=message):
        Decoder(encoder.members, {}).decode(tree, "value")


def test_multipliers_of_another_grid_are_not_those_of_the_step():
    model, other = fit(), fit(atoms=11)
    object.__setattr__(model.step_, "multipliers", other.multipliers_)
    assert "its multipliers do not have the shape of its atoms" in find_fault(model.step_)


def test_a_policy_beyond_any_fit_is_a_fault_of_its_step():
    model = fit()
    step = replace(model.step_, multipliers=np.full_like(model.multipliers_, 1e200))
    assert "logits beyond any fit" in find_fault(step)
