"""Every method of the comparison; this needs the environment of `make peers`."""

from benchmarks.peers.methods.base import Method
from benchmarks.peers.methods.fairlearn_methods import GroupLoss, Reduction, Thresholds, Uncorrelated
from benchmarks.peers.methods.others import Equipy, ErrorParity, OxonFair, OxonFairHybrid, OxonFairInferred
from benchmarks.peers.methods.ours import Adw, Evenhand, LinearPost
from benchmarks.peers.methods.simple import Constant, Plain

KINDS: tuple[type[Method], ...] = (
    Plain,
    Constant,
    Evenhand,
    Adw,
    LinearPost,
    Thresholds,
    Reduction,
    GroupLoss,
    Uncorrelated,
    Equipy,
    OxonFair,
    OxonFairInferred,
    OxonFairHybrid,
    ErrorParity,
)


def methods(task: str) -> list[Method]:
    """The methods for a task, one for each mode that they have."""
    return [kind(mode == "aware") for kind in KINDS if task in kind.tasks for mode in kind.modes]
