"""The hop rules: how a hop chooses among the in-edges of its destinations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from headrace.ops import _native
from headrace.ops.errors import InputError

_MAX_COUNT = 1 << 62

#: Rounds beyond a few hundred change nothing any more, so a larger number is a slip, or stands for "*".
MOST_ROUNDS = 1000


def _check_count(rule: str, name: str, value: int, everything: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _MAX_COUNT:
        message = f"{rule}: expected {name} to be an int of at least 0, or -1 for all {everything}, got {value!r}"
        raise InputError(message)


class Traits(NamedTuple):
    """What holds of all rules of a kind, on the CPU and on a GPU; the table is `ops/native/sampling/rule.hpp`.

    Attributes
    ----------
    layer_wise : bool
        Whether the picks of a destination depend on the others of the hop.
    draws_edges : bool
        Whether edges are drawn destination by destination.
    has_edge_variates : bool
        Whether edges are picked by variates of their own, of which parallel edges share none.
    reads_edges : bool
        Whether the rule looks at the edges to choose from, without weights, too.
    is_bounded : bool
        Whether a destination has no more picks than are asked for.
    takes_weights : bool
        Whether the rule picks by weight where there are weights.
    has_twin : bool
        Whether a GPU picks by it.
    """

    layer_wise: bool
    draws_edges: bool
    has_edge_variates: bool
    reads_edges: bool
    is_bounded: bool
    takes_weights: bool
    has_twin: bool


#: By the name of the kind, under which kernels of the CPU and of GPUs know it.
TRAITS = {kind: Traits(**traits) for kind, traits in _native.rule_traits().items()}


@dataclass(frozen=True)
class Rule(ABC):
    """Base of the rules."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind's name in the table of traits."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many edges, or sources, are asked for; -1 for all."""

    @property
    def rounds(self) -> int:
        """Rounds of importance as kernels count them: -1 until they change nothing."""
        return 0

    @property
    def traits(self) -> Traits:
        """What holds of its kind."""
        return TRAITS[self.kind]

    @property
    def per_destination(self) -> bool:
        """Whether the picks of a destination do not depend on the others of the hop."""
        return not self.traits.layer_wise

    @property
    def has_edge_variates(self) -> bool:
        """Whether edges are picked by variates of their own, of which parallel edges share none."""
        return self.traits.has_edge_variates

    @property
    def has_twin(self) -> bool:
        """Whether a GPU picks by the rule."""
        return self.traits.has_twin

    @property
    def reads_whole_rows(self) -> bool:
        """Whether the rule, without weights, looks at all in-edges of a destination and at nothing else of it."""
        return False


@dataclass(frozen=True)
class _FanoutRule(Rule):
    """Base of the rules by a fan-out."""

    fanout: int

    @property
    def count(self) -> int:
        """Return the fan-out."""
        return self.fanout

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_count(type(self).__name__, "fanout", self.fanout, "in-edges")


@dataclass(frozen=True)
class NeighborRule(_FanoutRule):
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

    replace: bool = False

    @property
    def kind(self) -> str:
        """Return the kind: draws with replacement are one of their own."""
        return "neighbor_replacement" if self.replace else "neighbor"

    @property
    def reads_whole_rows(self) -> bool:
        """Whether all in-edges are taken."""
        return self.fanout == -1


@dataclass(frozen=True)
class LatestRule(_FanoutRule):
    """Pick the last in-edges of each destination: where rows are sorted by time, the most recent ones.

    Nothing is drawn, and weights are not read. Edges of one time count as later the later they came.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    """

    @property
    def kind(self) -> str:
        """Return the kind."""
        return "latest"


@dataclass(frozen=True)
class LaborRule(_FanoutRule):
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

    exact: bool = True

    @property
    def kind(self) -> str:
        """Return the kind: exact picks, or Poisson sampling."""
        return "labor_exact" if self.exact else "labor_poisson"

    @property
    def reads_whole_rows(self) -> bool:
        """Return True: each in-edge has a variate."""
        return True


@dataclass(frozen=True)
class LaborImportanceRule(_FanoutRule):
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

    importance: int | Literal["*"] = "*"

    def __post_init__(self) -> None:
        """Check fan-out and rounds."""
        super().__post_init__()
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
    def kind(self) -> str:
        """Return the kind."""
        return "labor_importance"

    @property
    def rounds(self) -> int:
        """Return the rounds, -1 for "*"."""
        return -1 if self.importance == "*" else self.importance


@dataclass(frozen=True)
class LadiesRule(Rule):
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

    size: int
    poisson: bool = False

    def __post_init__(self) -> None:
        """Check the size."""
        _check_count("LadiesRule", "size", self.size, "sources")

    @property
    def kind(self) -> str:
        """Return the kind: exactly as many sources, or Poisson sampling."""
        return "ladies_poisson" if self.poisson else "ladies"

    @property
    def count(self) -> int:
        """Return the number of sources."""
        return self.size


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

    @property
    def has_twin(self) -> bool:
        """Whether a GPU picks by all the rules."""
        return all(rule.has_twin for rule in self.rules)

    @property
    def reads_whole_rows(self) -> bool:
        """Whether the rule looks at whole rows of nodes: those of a relation are parts of them."""
        return False


HopRule: TypeAlias = Rule | ByRelation
