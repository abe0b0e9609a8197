"""What a fit knew of the groups: of how many rows, in which table, and how surely."""

from collections.abc import Iterator
from dataclasses import dataclass

from evenhand._utils.labels import label_text
from evenhand._utils.stored import Stored, is_count, is_finite
from evenhand._utils.text import spaced
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels


@dataclass(frozen=True, slots=True, eq=False)
class GroupKnowledge(Stored):
    """Rows of known groups that a model was fitted on."""

    n_rows: int  # with an outcome
    n_known: int  # of them, or people of the other table, with a known group
    groups: Labels  # of the first attribute first, where there are several
    counts: FloatArray  # rows of each, sums of probabilities where these are all that is known, (n_groups,)
    soft: bool = False  # groups were given as probabilities
    other_table: bool = False  # groups were those of other people

    def faults(self) -> Iterator[str]:
        """Counts for each group."""
        if not is_count(self.n_rows) or not is_count(self.n_known):
            yield "its numbers of rows are none"
        elif type(self.groups) is not tuple or not is_finite(self.counts, len(self.groups)):
            yield "its counts are not one number for each group"
        elif type(self.soft) is not bool or type(self.other_table) is not bool:
            yield "its switches are not yes or no"

    @property
    def n_unknown(self) -> int:
        """Rows with an outcome whose group was not known."""
        return self.n_rows if self.other_table else self.n_rows - self.n_known

    @property
    def sentence(self) -> str:
        """What was known, in words; empty where the group of every row was."""
        if not self.n_unknown and not self.soft:
            return ""
        counts = zip(self.groups, self.counts.tolist(), strict=True)
        named = ", ".join(f"{label_text(group)}: {spaced(round(count))}" for group, count in counts)
        text = f"The group of {spaced(self.n_known)} of {spaced(self.n_rows)} rows was known"
        if self.other_table:
            text = f"The groups were learned from {spaced(self.n_known)} people of another table"
        if not self.soft:
            return f"{text} ({named})."
        return (
            f"{text}, by probabilities alone ({named}): all that is said of groups takes these to be right, "
            "whatever the prediction is."
        )
