"""Facts become one HTML file that needs nothing else."""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from evenhand._utils.optional import import_optional
from evenhand.reporting import words
from evenhand.reporting.facts import FEWEST_JUDGED, Facts, to_plain
from evenhand.reporting.scorer import start_of

SCRIPTS = ("format.js", "svg.js", "charts.js", "groups.js", "page.js")  # in the order in which they run
MOST_PANELS = 24  # groups in the chart of bounds, and panels of calibration; the tables have them all
# What would end a script element, open a comment in it, or break a line in old engines.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(facts: Facts, scorer: dict[str, Any] | None = None) -> str:
    """The report as HTML: styles, scripts and numbers are inside; with `scorer` a step that predicts, too."""
    jinja2 = import_optional("jinja2", extra="report", purpose="A report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": words.number, "percent": words.percent}
    style, script = _read("page.css"), _script(*SCRIPTS, *(() if scorer is None else ("scorer.js",)))
    plain = to_plain(facts)
    text: str = environment.get_template("page.html.j2").render(
        facts=facts,
        words=words,
        verdict=words.verdict(facts),
        fewest=FEWEST_JUDGED,
        panels=MOST_PANELS,
        data=jinja2.utils.markupsafe.Markup(to_script(plain)),
        scorer=scorer,
        start=[] if scorer is None else start_of(scorer),
        step=jinja2.utils.markupsafe.Markup("" if scorer is None else to_script(scorer)),
        style=jinja2.utils.markupsafe.Markup(style),
        script=jinja2.utils.markupsafe.Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
    )
    return text


def to_script(plain: Any) -> str:
    r"""JSON that is safe inside a script element, whatever text is in it.

    >>> to_script({"</script>": "\u2028"})
    '{"\\u003c/script\\u003e":"\\u2028"}'
    """
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character, escaped in UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def _read(name: str) -> str:
    return files("evenhand.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _script(*names: str) -> str:
    """All scripts as one, with nothing of it visible to others."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_read, names)) + "\n})();"


def _hash(text: str) -> str:
    """A source of the page's security policy: the browser runs this text, and no other."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
