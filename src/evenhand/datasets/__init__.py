"""Data sets of the paper, and synthetic populations with a known truth.

Every function returns a scikit-learn `Bunch` with `data`, `target`, `sensitive_features`,
`feature_names` and `DESCR`; the group is never among the features.
"""

from evenhand.datasets.files import load_adult, load_communities, load_law_school
from evenhand.datasets.splits import PaperSplit, paper_split
from evenhand.datasets.synthetic import make_class_population, make_paper_synthetic, make_population

__all__ = [
    "PaperSplit",
    "load_adult",
    "load_communities",
    "load_law_school",
    "make_class_population",
    "make_paper_synthetic",
    "make_population",
    "paper_split",
]
