"""The hop rules: how a hop chooses among the in-edges of its destinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from headrace.ops.errors import InputError

_MAX_COUNT = 1 << 62

#: Rounds beyond a few hundred change nothing any more, so a larger number is a slip, or stands for "*".
MOST_ROUNDS = 1000


def _check_count(rule: str, name: str, value: int, everything: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _MAX_COUNT:
        message = f"{rule}: expected {name} to be an int of at least 0, or -1 for all {everything}, got {value!r}"
        raise InputError(message)


@dataclass(frozen=True)
class NeighborRule:
    """Pick in-edges destination by destination, uniformly or by edge weight.

    With weights, picks without replacement have the law of successive draws by weight, picks with replacement are
    independent draws by weight. Edges of weight 0 are never picked.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    replace : bool
        Draw `fanout` times with replacement instead. Ignored when `fanout` is -1.
    """

    per_destination: ClassVar[bool] = True
    """Whether the picks of a destination do not depend on the others of the hop."""
    has_edge_variates: ClassVar[bool] = False
    """Whether edges are picked by variates of their own, of which parallel edges share none."""

    fanout: int
    replace: bool = False

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_count("NeighborRule", "fanout", self.fanout, "in-edges")


@dataclass(frozen=True)
class LatestRule:
    """Pick the last in-edges of each destination: where rows are sorted by time, the most recent ones.

    Nothing is drawn, and weights are not read. Edges of one time count as later the later they came.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    """

    per_destination: ClassVar[bool] = True
    has_edge_variates: ClassVar[bool] = False

    fanout: int

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_count("LatestRule", "fanout", self.fanout, "in-edges")


@dataclass(frozen=True)
class LaborRule:
    """Layer-neighbour sampling, LABOR-0 (arXiv 2210.13339): destinations of a hop share one variate per source node.

    The number of edges per destination and the variance of a mean over them are those of `NeighborRule`, but
    destinations agree on which sources to pick, so a batch touches fewer nodes.

    With weights ``A_ts`` edge t -> s is wanted with probability ``min(1, fanout * A_ts / sum of the row)``, and picked
    edges carry importance weights: a plain mean of messages times these weights is the Hajek estimate of the weighted
    mean over all in-edges. Edges of weight 0 are never picked; where no more than `fanout` others are left, all of
    those are.

    Of several edges from one source to one destination each has a variate of its own, so that each is picked as often
    as any other edge. Destinations still share those of the first, second, ... edges from a source.

    *Bias.* By weight the estimate of exact picks has one: picks come with probabilities that are only close to the
    wanted ones, and a ratio is taken. For messages that have nothing to do with the weights it is 0 on average; for
    messages that grow in proportion to (exponentially distributed) weights it is, in standard deviations of the
    messages, 0.21, 0.14, -0.06 and -0.23 at 1, 2, 5 and 10 of 20 in-edges, and 0.02 to 0.05 at 1 to 10 of 100. Poisson
    sampling has the bias of the ratio alone, of order 1 / fanout; `NeighborRule` with `replace` has none.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    exact : bool
        True: exactly `fanout` edges, those with the smallest variates r_t, or r_t / A_ts with weights (sequential
        Poisson sampling, whose inclusion probabilities are close to the wanted ones; not an exponential race). False:
        each edge is kept with probability fanout / in-degree, or the wanted one (Poisson sampling), so that `fanout` is
        the expected number.
    """

    per_destination: ClassVar[bool] = True
    has_edge_variates: ClassVar[bool] = True

    fanout: int
    exact: bool = True

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_count("LaborRule", "fanout", self.fanout, "in-edges")


@dataclass(frozen=True)
class LaborImportanceRule:
    """LABOR-i and LABOR-* (arXiv 2210.13339): LABOR with probabilities of sources that all destinations agree on.

    An edge t -> s is kept iff ``r_t <= min(1, c_s * pi_t)``, with the same variates r_t as `LaborRule`. The scales c_s
    give each destination at least the precision that `fanout` picks would give it (the variance equation of the
    paper), and each round of importance lowers the expected number of distinct sources. The price is more *edges* than
    `fanout` per destination wherever the pi_t differ, and work on all in-edges of the whole frontier in every round.
    Where no more than `fanout` edges (of positive weight) are there, all are kept.

    Several edges from one source to one destination have variates of their own, so that each destination has the
    precision it is given; they agree on pi_t. A source then counts as picked, in the expected number of sources that
    rounds lower, when the first of its edges would be.

    Picked edges always carry importance weights; a plain mean of messages times these weights is the Hajek estimate of
    the mean over all in-edges, or of their weighted mean.

    Attributes
    ----------
    fanout : int
        In-edges per destination whose precision is wanted, or -1 for all of them.
    importance : int or "*"
        Rounds, 1 to 1,000, or "*": until a round lowers the expected number of sources by no more than 0.01 %.
    """

    per_destination: ClassVar[bool] = False
    has_edge_variates: ClassVar[bool] = True

    fanout: int
    importance: int | Literal["*"] = "*"

    def __post_init__(self) -> None:
        """Check fan-out and rounds."""
        _check_count("LaborImportanceRule", "fanout", self.fanout, "in-edges")
        rounds = self.importance
        if rounds != "*" and (
            isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MOST_ROUNDS
        ):
            message = (
                f"LaborImportanceRule: expected importance to be an int of at least 1 and at most {MOST_ROUNDS}, or "
                f'"*", which stops by itself, got {rounds!r}'
            )
            raise InputError(message)

    @property
    def native_rounds(self) -> int:
        """Return the rounds as the kernels count them: -1 stands for "*"."""
        return -1 if self.importance == "*" else self.importance


@dataclass(frozen=True)
class LadiesRule:
    """Layer sampling, LADIES (arXiv 1911.07323) and PLADIES (arXiv 2210.13339): sources drawn for the hop as a whole.

    A source t is drawn by its score, ``q_t = sum over destinations s of P_ts ** 2``, where P_ts is 1 / in-degree of s,
    or the edge's share of the weights of the row of s. *All* edges from drawn sources to destinations are kept, so a
    destination has as many as it happens to have, none included. No self-loops are added and destinations are not
    favoured as sources.
    Several edges from one source to one destination are kept or left out together, and each counts on its own in q_t.

    Kept edges carry importance weights P_ts / pi_t, where pi_t is the probability that t is drawn, scaled to average to
    1 per destination: a plain mean of messages times these weights is the Hajek estimate of their (weighted) mean over
    all in-edges.

    Attributes
    ----------
    size : int
        Sources per hop; all of them where there are no more, or when it is -1.
    poisson : bool
        False: exactly `size`, one after the other by score, without replacement. True: each on its own with probability
        min(1, c * q_t), so that `size` is the expected number.
    """

    per_destination: ClassVar[bool] = False
    has_edge_variates: ClassVar[bool] = False

    size: int
    poisson: bool = False

    def __post_init__(self) -> None:
        """Check the size."""
        _check_count("LadiesRule", "size", self.size, "sources")


Rule: TypeAlias = NeighborRule | LatestRule | LaborRule | LaborImportanceRule | LadiesRule


@dataclass(frozen=True)
class ByRelation:
    """A rule for each relation of a graph with types.

    Each relation's in-edges of a destination are picked from by themselves. LABOR's variates belong to source nodes, so
    relations share them; other draws are independent.

    Attributes
    ----------
    rules : tuple of Rule
        In the order of the graph's edge types.
    """

    rules: tuple[Rule, ...]

    @property
    def per_destination(self) -> bool:
        """Whether the picks of a destination do not depend on the others of the hop."""
        return all(rule.per_destination for rule in self.rules)

    @property
    def has_edge_variates(self) -> bool:
        """Whether edges are picked by variates of their own, of which parallel edges share none."""
        return any(rule.has_edge_variates for rule in self.rules)


HopRule: TypeAlias = Rule | ByRelation


def reads_whole_rows(rule: HopRule) -> bool:
    """Whether a rule looks at all in-edges of a destination, without weights, and at nothing else of it."""
    return isinstance(rule, LaborRule) or (isinstance(rule, NeighborRule) and rule.fanout == -1)
