"""How a fitted model presents itself: scikit-learn's text and diagram, and what it promises to new people."""

from html import escape
from typing import Any

from evenhand.certificates import Certificate
from evenhand.estimators.knowledge import GroupKnowledge


class TellsPromise:
    """Adds a line on the promise to `print(model)` and to a notebook; `repr(model)` stays scikit-learn's.

    It comes before `BaseEstimator` among the bases of a class.
    """

    certificate_: Certificate

    def _remedies(self) -> tuple[str, ...]:
        """What the user of this model can mend, where new people cannot be promised what was asked for."""
        return ("better calibrated group probabilities",)

    def _promise_text(self) -> str:
        """What is said of new people; empty before a fit."""
        certificate: Certificate | None = getattr(self, "certificate_", None)
        if certificate is None:
            return ""
        knowledge: GroupKnowledge | None = getattr(self, "group_knowledge_", None)
        known = f" {knowledge.sentence}".rstrip() if knowledge is not None else ""
        if certificate.promise is not None:
            return certificate.promise.told(self._remedies()) + known
        return (
            "Nothing is promised to new people: epsilon is for the rows of the parity step, with their group "
            f"probabilities taken at their word. The largest distance there is "
            f"{certificate.violation.max():.4g}.{known}"
        )

    def __str__(self) -> str:
        text = self._promise_text()
        return f"{self!r}\n{text}" if text else repr(self)

    def _repr_html_inner(self) -> str:
        return self._with_promise(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        bundle["text/plain"] = str(self)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_promise(bundle["text/html"])
        return bundle

    def _with_promise(self, diagram: str) -> str:
        text = self._promise_text()
        return f'{diagram}<p style="max-width: 46rem">{escape(text)}</p>' if text else diagram
