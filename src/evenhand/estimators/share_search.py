"""The search for the share of epsilon to ask for on the rows of a fit, so that new people see epsilon."""

from dataclasses import dataclass, field

FIRST_SHARE = 0.8  # of epsilon that is tried first
LEAST_SHARE = 0.1  # of epsilon: less costs risk, and hardly any distance
# Shares of epsilon that are promised: the most, what is aimed at, and where to stop. The models of all rows
# differ from those of the folds, boosted trees so much that 3 % are kept back for it.
MOST, AIM, ENOUGH = 0.97, 0.93, 0.89
LEAST_SLOPE = 0.3  # of a distance in its tolerance, between two that were tried


@dataclass(slots=True)
class ShareSearch:
    """The largest share of epsilon, asked for on the rows, that promises no more than epsilon."""

    share: float = FIRST_SHARE  # to be tried next
    done: bool = False
    tried: list[tuple[float, float]] = field(default_factory=list)  # with its promise, in epsilons

    def note(self, ratio: float) -> None:
        """Take what the share promises, in epsilons, and choose the next one.

        It is on the line through the largest that does and the least that does not, or, as long as all are on
        one side, through the last two; at first a distance is taken to grow one to one with its tolerance.
        """
        self.tried.append((self.share, ratio))
        at_end = self.share == (LEAST_SHARE if ratio > MOST else 1.0)
        does = max((pair for pair in self.tried if pair[1] <= MOST), default=None)
        fails = min((pair for pair in self.tried if pair[1] > MOST), default=None)
        (other, before), (self.share, ratio) = self.tried[-2:][0], self.tried[-1]
        if does is not None and fails is not None:
            (other, before), (self.share, ratio) = fails, does
            at_end = at_end or other <= self.share
        self.done = at_end or ENOUGH <= ratio <= MOST
        if not self.done:
            slope = (before - ratio) / (other - self.share) if other != self.share else 1.0
            step = (AIM - ratio) / max(slope, LEAST_SLOPE)
            self.share = min(max(self.share + step, LEAST_SHARE), 1.0)

    def settled(self) -> float:
        """The largest that was found to do, if need be with nothing kept back, or the least there is."""
        for most in (MOST, 1.0):
            shares = [share for share, ratio in self.tried if ratio <= most]
            if shares:
                return max(shares)
        return LEAST_SHARE
