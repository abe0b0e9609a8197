"""Models in MLflow: logged from the safe model file, served as any other `pyfunc` model.

It needs MLflow: `pip install 'evenhand[mlflow]'`. docs/how-to/mlflow.md goes the whole way.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import evenhand
from evenhand._utils.optional import import_optional
from evenhand._utils.text import plain
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.modelfile import UntrustedTypesError, load, save
from evenhand.reporting import model_card
from evenhand.tables.formats import require_columns
from evenhand.tables.model_inputs import Model, TableReader, as_frame, make_reader, read_column

FOLDER = "evenhand"  # inside the logged folder's `data`
FILE = "model.evenhand"
CARDS = ("card.md", "card.json")
OUTPUTS = {
    "draw": "predict",
    "mean": "predict_mean",
    "quantile": "predict_quantile",
    "pmf": "predict_pmf",
    "proba": "predict_proba",
    "mode": "predict_mode",
}
REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "narwhals", "skops", "pandas")
OUR_MODULES = {"evenhand", "sklearn", "numpy", "scipy", "builtins"}  # that REQUIRED and the code bring


def save_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    input_example: Any = None,
    signature: Any = None,
    output: str = "draw",
    ids: str | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    card_rows: tuple[Any, Any, Any] | None = None,
    requirement: str | None = None,
    extra_pip_requirements: Sequence[str] = (),
    code_paths: Sequence[str] = (),
    trusted: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a fitted model to a folder that MLflow serves.

    The folder holds the model file of `evenhand.save` (no pickle), the versions that it needs, the signature,
    and evenhand's own code, unless `requirement` says where else it comes from.

    Parameters
    ----------
    model : fitted ParityRegressor, ParityClassifier or ParityPostprocessor
    path : str or path
        A folder that does not exist, or is empty.
    input_example : data frame or array, default=None
        A few rows as they will be sent; kept in the folder, so make them up. The signature is inferred from
        them. For a post-processor a frame whose first columns are the score (or class probabilities) and
        whose last ones are the probabilities of the groups.
    signature : mlflow ModelSignature, default=None
    output : {"draw", "mean", "quantile", "pmf", "proba", "mode"}, default="draw"
        What is answered by default; a request may ask for another with `params={"output": "mean"}`, and for
        a quantile with `"q"`.
    ids : str, default=None
        Column that says who a row is, for draws; it is sent with the features.
    sensitive_features : str or list of str, default=None
        Columns of the group; for `aware` models, which need it.
    card_rows : tuple (X, y, sensitive_features), default=None
        Rows that the model was not fitted on: a model card of them is written beside the model.
    requirement : str, default=None
        What pip is to install evenhand from, such as "evenhand==1.2" or the address of a wheel. By default
        evenhand's code travels in the folder.
    extra_pip_requirements, code_paths : list of str
        More packages to install, and files or folders with code of your own to carry along.
    trusted : list of str
        Types in the file that you vouch for, for whoever serves the folder (docs/reference/model-file.md).
    metadata : dict, default=None
    mlflow_model : mlflow.models.Model, default=None
        Filled in; `log_model` passes it.
    """
    mlflow = _mlflow()
    _check_model(model)
    config = {"output": output, "ids": ids, "trusted": list(trusted)}
    config |= _columns(model, input_example, sensitive_features)
    served = Served(model, config)
    if signature is None:  # without rows, too: MLflow drops the params of a request that no signature names
        answer = None if input_example is None else served.predict(input_example)
        params = {"output": output, "q": 0.5}
        signature = mlflow.models.infer_signature(input_example, answer, params)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, FOLDER)
        folder.mkdir()
        _save_checked(model, folder / FILE, trusted)
        if card_rows is not None:
            _write_cards(model, card_rows, folder)
        carried = [] if requirement is not None else [os.path.dirname(os.path.abspath(evenhand.__file__))]
        mlflow_model = mlflow.models.Model() if mlflow_model is None else mlflow_model
        file = f"data/{FOLDER}/{FILE}"
        mlflow_model.add_flavor("evenhand", model_file=file, evenhand_version=evenhand.__version__)
        mlflow.pyfunc.save_model(
            os.fspath(path),
            loader_module=__name__,
            data_path=str(folder),
            code_paths=[*carried, *code_paths] or None,
            mlflow_model=mlflow_model,
            signature=signature,
            input_example=input_example,
            pip_requirements=_requirements(model, requirement, extra_pip_requirements),
            metadata={**_facts(model), **(metadata or {})},
            model_config=config,
        )


def log_model(model: Model, name: str = "model", **options: Any) -> Any:
    """Log a fitted model to the active run, or to one that is started, and return MLflow's `ModelInfo`.

    Parameters
    ----------
    model : fitted ParityRegressor, ParityClassifier or ParityPostprocessor
    name : str, default="model"
    **options
        Those of `save_model` but for its path; `registered_model_name`, `run_id`, `tags`, `step` and others
        of MLflow's own `Model.log`.
    """
    mlflow = _mlflow()
    _check_model(model)
    return mlflow.models.Model.log(None, sys.modules[__name__], name=name, model=model, **options)


def load_model(model_uri: str, *, trusted: Sequence[str] = ()) -> Any:
    """The fitted model itself, from the model file alone: nothing else in the logged folder is run.

    Parameters
    ----------
    model_uri : str
        Such as "models:/credit/1", "runs:/.../model", or a folder.
    trusted : list of str
        As in `evenhand.load`.
    """
    mlflow = _mlflow()
    found = Path(mlflow.artifacts.download_artifacts(artifact_uri=os.fspath(model_uri)))
    file = found / "data" / FOLDER / FILE
    if not file.is_file():
        raise ValueError(
            f"{plain(model_uri)} holds no model of evenhand (data/{FOLDER}/{FILE}): log it with "
            "evenhand.mlflow.log_model."
        )
    return load(file, trusted=trusted)


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> "Served":
    """What MLflow calls to serve the folder."""
    config = dict(model_config or {})
    return Served(load(Path(path, FILE), trusted=config.get("trusted") or ()), config)


class Served:
    """A model as MLflow asks it: a table in, answers out.

    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.mlflow import Served
    >>> from evenhand.datasets import make_population
    >>> data = make_population(300, n_groups=2, random_state=0)
    >>> step = ParityPostprocessor().fit(data.scores, data.group_proba)
    >>> import pandas as pd
    >>> rows = pd.DataFrame(data.group_proba, columns=["A", "B"]).assign(score=data.scores)
    >>> config = {"output": "mean", "scores": "score", "group_proba": ["A", "B"]}
    >>> answers = Served(step, config).predict(rows)
    >>> bool((answers == step.predict_mean(data.scores, data.group_proba)).all())
    True
    """

    def __init__(self, model: Model, config: Mapping[str, Any]) -> None:
        names = ("scores", "group_proba", "sensitive_features")
        self.model = model
        self.output = _check_output(model, config.get("output") or "draw")
        self.ids: str | None = config.get("ids")
        self.reader: TableReader = make_reader(model, **{name: config.get(name) for name in names})
        if self.ids is not None and self.reader.columns() is None:
            raise ValueError(
                "ids is a column beside the features, which this model knows by place alone: fit it on a "
                "data frame."
            )

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Answers for the rows of `data`: an array, or a frame with a column for each atom or class.

        Parameters
        ----------
        data : data frame, or array where the model knows its features by place alone
        params : dict, default=None
            "output" in place of that of the config, and "q", the level of a quantile (0.5 by default).
        """
        asked = dict(params or {})
        output = _check_output(self.model, asked.get("output") or self.output)
        options: dict[str, Any] = {}
        who = self.ids if output == "draw" else None
        needed = self.reader.columns(who)
        if needed is not None:
            require_columns(as_frame(data).columns, needed, "The rows have")
        if who is not None:
            options["ids"] = read_column(data, who)
        if output == "quantile":
            options["q"] = float(asked.get("q", 0.5))
        method: Callable[..., Any] = getattr(self.model, OUTPUTS[output])
        found = method(*self.reader.arguments(data), **self.reader.keywords(data), **options)
        if found.ndim == 1:
            return found
        labels = getattr(self.model, "classes_", self.model.atoms_).tolist()
        frames = import_optional("pandas", extra="mlflow", purpose="A table of answers")
        return frames.DataFrame(found, columns=[plain(label) for label in labels])


def _mlflow() -> Any:
    found = import_optional("mlflow", extra="mlflow", purpose="evenhand.mlflow")
    for part in ("artifacts", "models", "pyfunc"):
        import_optional(f"mlflow.{part}", extra="mlflow", purpose="evenhand.mlflow")
    return found


def _check_model(model: Any) -> None:
    if not isinstance(model, ParityEstimator | ParityPostprocessor):
        raise TypeError(
            f"evenhand.mlflow takes a ParityRegressor, ParityClassifier or ParityPostprocessor: got "
            f"{type(model).__name__}. Put a pipeline inside of it, ParityRegressor(pipeline); of a search, "
            "log its best_estimator_."
        )
    check_is_fitted(model, "step_")


def _check_output(model: Any, output: Any) -> str:
    able = [name for name, method in OUTPUTS.items() if hasattr(model, method)]
    if output not in able:
        raise ValueError(f"output is one of {', '.join(able)} for a {type(model).__name__}: got {output!r}.")
    return str(output)


def _columns(model: Model, example: Any, sensitive_features: Any) -> dict[str, Any]:
    """Which columns of a request are what to the model."""
    if isinstance(model, ParityEstimator):
        groups = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
        if model.aware != (groups is not None):
            raise ValueError(
                "This model is aware: name the columns of the group, sensitive_features=."
                if model.aware
                else "sensitive_features is for aware models: this one does without the group."
            )
        return {"sensitive_features": None if groups is None else list(groups)}
    names = [str(name) for name in getattr(example, "columns", ())]
    n_groups, n_classes = model.n_groups_, model.policy_.cost.n_classes
    if len(names) != n_groups + (n_classes or 1):
        raise ValueError(
            f"A post-processor needs input_example, a data frame of {n_classes or 1} columns of scores and "
            f"{n_groups} of group probabilities, in this order: got columns {names}."
        )
    scores = names[0] if n_classes is None else names[:n_classes]
    return {"scores": scores, "group_proba": names[-n_groups:]}


def _save_checked(model: Model, path: Path, trusted: Sequence[str]) -> None:
    """The model file, refused here where it would be refused later, on a server."""
    save(model, path)
    try:
        load(path, trusted=trusted)
    except UntrustedTypesError as error:
        raise ValueError(
            f"The model file holds types that nobody trusts unasked. If you know where they come from, pass "
            f"trusted={sorted(error.types)!r}, for whoever serves it (docs/reference/model-file.md)."
        ) from error


def _write_cards(model: Model, rows: tuple[Any, Any, Any], folder: Path) -> None:
    X, y, groups = rows
    for name in CARDS:
        model_card(model, X, y, sensitive_features=groups, path=folder / name)


def _facts(model: Model) -> dict[str, Any]:
    """A few facts for the registry's pages; the card has all."""
    certificate = model.certificate_
    estimate = certificate.out_of_sample
    return {
        "evenhand": {
            "class": type(model).__name__,
            "parity": certificate.parity,
            "groups": [plain(group) for group in model.groups_.tolist()],
            "epsilon": model.epsilon_.tolist(),
            "violation_on_the_rows_of_the_fit": np.asarray(certificate.violation).tolist(),
            "out_of_sample": "There is no estimate for new data." if estimate is None else str(estimate),
        }
    }


def _requirements(model: Model, requirement: str | None, extra: Sequence[str]) -> list[str]:
    """Packages at the versions of this environment; MLflow adds itself."""
    pinned = [f"{name}=={version(name)}" for name in REQUIRED]
    pinned += [f"{name}=={version(name)}" for name in sorted(_foreign_packages(model))]
    return [*pinned, *([] if requirement is None else [requirement]), *extra]


def _foreign_packages(model: Model) -> set[str]:
    """Distributions that the models inside come from, beside scikit-learn."""
    roots = {type(part).__module__.partition(".")[0] for part in _parts(model)}
    known = packages_distributions()
    return {known[root][0] for root in roots - OUR_MODULES if known.get(root)}


def _parts(value: Any, depth: int = 0) -> Iterator[Any]:
    """Estimators inside a model, wherever scikit-learn's conventions put them."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each, depth)
    elif hasattr(value, "get_params") and not isinstance(value, type) and depth < 8:
        yield value
        for name, each in vars(value).items():
            if name.endswith("_") or not name.startswith("_"):
                yield from _parts(each, depth + 1)
