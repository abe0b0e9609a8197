"""`report` and `model_card`: gather the facts, print them, write one file."""

import contextlib
import os
from pathlib import Path
from typing import Any

from evenhand._utils.atomic import whole_file
from evenhand._utils.optional import import_optional
from evenhand._utils.progress import Listener, listening
from evenhand.evaluation.frontier import Frontier
from evenhand.reporting.card import render_json, render_markdown
from evenhand.reporting.gather import gather
from evenhand.reporting.page import render_page
from evenhand.reporting.scorer import read_scorer

CARDS = {".md": render_markdown, ".json": render_json}


def report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    path: str | os.PathLike[str],
    title: str | None = None,
    sample_weight: Any = None,
    n_tolerances: int | None = None,
    frontier: Frontier | None = None,
    threshold: float | None = None,
    selected: Any = None,
    compare: Any = True,
    scorer: bool = False,
    progress: Listener | None = None,
) -> Path:
    """Write a page that explains a fitted model, and what it does to each group, to people with a browser.

    It is one HTML file that asks for nothing from the network: what was asked for and what was reached, the
    predictions of each group before and after, a slider over other tolerances with what each would
    cost, certificates, the calibration of the group probabilities, the data and the settings.

    Parameters
    ----------
    model : ParityRegressor, ParityPostprocessor, or a Pipeline that ends with one
        Fitted.
    X : table of shape (n_rows, n_features), or (scores, group_proba)
        Rows that the model was not fitted on; a pair for a post-processor.
    y : array of shape (n_rows,), default=None
        Outcomes. Without them the cost is told as the distance to the scores.
    sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
        Group of each row. It is used to measure, never to predict (but by `aware` models). For a
        post-processor with strata it has the columns of `group_proba`, and says with zeros and ones which of
        its groups a row is in: one of a stratum, or none.
    path : str or path
        Where to write; an existing file is replaced, once the new one is whole.
    title : str, default=None
        Heading of the page.
    sample_weight : array of shape (n_rows,), default=None
    n_tolerances : int, default=None
        Positions of the slider beside the model's own tolerance; by default 13, or 7 where groups and atoms
        are many. For each, the parity step is solved again
        on a half of the rows, without their outcomes and groups, and measured on the other half, both ways.
    frontier : Frontier, default=None
        Models for other tolerances from `evenhand.frontier`, on the rows of the fit; they are measured on
        `X` and take the place of those solved again.
    threshold : float, default=None
        Rates and impact ratios count the predictions above it; by default above the median.
    selected : label or list of labels, default=None
        Of classes, those that count as selected; by default the second of two.
    compare : fitted model or bool, default=True
        The same parity with the group and without, side by side. A model of the other mode (`aware`) that was
        fitted on the same rows is measured beside this one. True fits no model: the parity step alone is
        solved again with the groups of these rows, on one half and measured on the other, both ways, where
        the groups are known and the rows enough; False leaves it out.
    scorer : bool, default=False
        Let readers type a score and group probabilities and see the distribution that the parity step gives
        it. The page then holds the step itself: whoever has the page can predict with it.
    progress : callable, default=None
        Called with the name of a stage, steps done, and their number where it is known.

    Returns
    -------
    Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> fit, new = (eh.datasets.make_population(500, n_groups=2, random_state=seed) for seed in (0, 1))
    >>> model = eh.ParityRegressor().fit(fit.data, fit.target, sensitive_features=fit.sensitive_features)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = eh.report(model, new.data, new.target, sensitive_features=new.sensitive_features,
    ...                      path=f"{folder}/report.html", n_tolerances=3)
    ...     page.name, page.stat().st_size < 3_000_000
    ('report.html', True)
    """
    import_optional("jinja2", extra="report", purpose="A report")  # before any work is done
    step = read_scorer(model) if scorer else None
    with contextlib.nullcontext() if progress is None else listening(progress):
        facts = gather(
            model,
            X,
            y,
            sensitive_features=sensitive_features,
            title=title,
            sample_weight=sample_weight,
            n_tolerances=n_tolerances,
            frontier=frontier,
            threshold=threshold,
            selected=selected,
            compare=compare,
        )
    return _write(render_page(facts, step), path)


def model_card(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    path: str | os.PathLike[str],
    title: str | None = None,
    sample_weight: Any = None,
    threshold: float | None = None,
    selected: Any = None,
    compare: Any = False,
) -> Path:
    """Write the facts of a report as a model card: Markdown for people, JSON for machines.

    Parameters
    ----------
    model, X, y, sensitive_features, title, sample_weight, threshold, selected
        As in `report`.
    path : str or path
        Its suffix chooses: `.md` or `.json`.
    compare : fitted model or bool, default=False
        As in `report`: the same parity with the group and without.

    Examples
    --------
    >>> import json, tempfile
    >>> import evenhand as eh
    >>> data = eh.datasets.make_population(500, n_groups=2, random_state=0)
    >>> model = eh.ParityPostprocessor().fit(data.scores, data.group_proba)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     card = eh.model_card(model, (data.scores, data.group_proba), data.target,
    ...                          sensitive_features=data.sensitive_features, path=f"{folder}/card.json")
    ...     json.loads(card.read_text())["asked"]["parity"]
    'cdf'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in CARDS:
        raise ValueError(
            f"path must end in .md or .json, which say how the card is written: got {str(path)!r}."
        )
    facts = gather(
        model,
        X,
        y,
        sensitive_features=sensitive_features,
        title=title or "Model card",
        sample_weight=sample_weight,
        n_tolerances=0,
        threshold=threshold,
        selected=selected,
        compare=compare,
    )
    return _write(CARDS[suffix](facts), path)


def _write(text: str, path: str | os.PathLike[str]) -> Path:
    # Names in the data may hold halves of characters, which no file can hold.
    with whole_file(path) as file:
        file.write(text.encode("utf-8", errors="replace"))
    return Path(path)
