"""A report that opens in a browser, and a model card: two ways to print the same facts.

| module | what it does |
| --- | --- |
| `gather` | a fitted model and held-out rows become `Facts` |
| `measure`, `tolerances`, `proofs`, `data`, `scales` | the parts of that |
| `words` | sentences for people who do not read formulas |
| `page`, `card` | facts become HTML, Markdown or JSON |
"""

from evenhand.reporting.documents import model_card, report
from evenhand.reporting.facts import Facts
from evenhand.reporting.gather import gather

__all__ = ["Facts", "gather", "model_card", "report"]
