"""The hop rules: how a hop chooses among the in-edges of its destinations."""

from __future__ import annotations

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
        Whether the rule picks by weight if there are weights.
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


#: By the name of the kind, which kernels of the CPU and of GPUs use, too.
TRAITS = {kind: Traits(**traits) for kind, traits in _native.rule_traits().items()}


@dataclass(frozen=True)
class Rule:
    """Base of the rules, which name their kind and how many edges they pick."""

    @property
    def kind(self) -> str:
        """The name of the kind in the table of traits."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """The number of edges, or sources, to pick; -1 for all."""
        raise NotImplementedError

    @property
    def rounds(self) -> int:
        """The rounds of importance, for kernels: -1 until they change nothing."""
        return 0

    @property
    def traits(self) -> Traits:
        """The traits of its kind."""
        return TRAITS[self.kind]

    @property
    def per_destination(self) -> bool:
        """Whether the picks of a destination do not depend on the others of the hop."""
        return not self.traits.layer_wise

    @property
    def has_edge_variates(self) -> bool:
        """Whether each edge has its own variate, which parallel edges do not share."""
        return self.traits.has_edge_variates

    @property
    def has_twin(self) -> bool:
        """Whether a GPU picks by the rule."""
        return self.traits.has_twin

    @property
    def reads_whole_rows(self) -> bool:
        """Whether the rule, without weights, reads all in-edges of a destination and nothing else."""
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
        Draw `fanout` times with replacement. Ignored if `fanout` is -1.
    """

    replace: bool = False

    @property
    def kind(self) -> str:
        """Return the kind: draws with replacement have their own."""
        return "neighbor_replacement" if self.replace else "neighbor"

    @property
    def reads_whole_rows(self) -> bool:
        """Whether all in-edges are taken."""
        return self.fanout == -1


@dataclass(frozen=True)
class LatestRule(_FanoutRule):
    """Pick the last in-edges of each destination: the most recent ones, if rows are sorted by time.

    Nothing is drawn, and weights are not read. Among edges of one time, those given later count as more recent.

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
    destinations agree on sources, so a batch has fewer nodes.

    With weights ``A_ts`` the target probability of edge t -> s is ``min(1, fanout * A_ts / sum of the row)``, and
    picked edges have importance weights: the plain mean of messages times these weights is the Hajek estimate of the
    weighted mean over all in-edges. Edges of weight 0 are never picked; if at most `fanout` others remain, all of them
    are picked.

    Parallel edges have separate variates, so that each is picked as often as any other edge. Destinations share the
    variates of the first, second, ... edge from a source.

    *Bias.* With weights the estimate of exact picks is biased, because pick probabilities are only close to their
    targets, and because it is a ratio. For messages independent of the weights the bias is 0 on average. For messages
    proportional to (exponentially distributed) weights it is, in standard deviations of the messages, 0.21, 0.14, -0.06
    and -0.23 at 1, 2, 5 and 10 of 20 in-edges, and 0.02 to 0.05 at 1 to 10 of 100. Poisson sampling only has the bias
    of the ratio, of order 1 / fanout; `NeighborRule` with `replace` has none.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    exact : bool
        True: exactly `fanout` edges, those with the smallest variates r_t, or r_t / A_ts with weights (sequential
        Poisson sampling, with inclusion probabilities close to the targets; not an exponential race). False: each edge
        is kept with probability fanout / in-degree, or the target probability (Poisson sampling), so that `fanout` is
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
    give each destination at least the precision of `fanout` picks (the variance equation of the paper), and each round
    of importance lowers the expected number of distinct sources. The costs are more *edges* than `fanout` per
    destination if the pi_t differ, and a pass over all in-edges of the whole frontier in every round. With at most
    `fanout` edges (of positive weight) all are kept.

    Parallel edges have separate variates, so that each destination has its precision; they share pi_t. In the expected
    number of sources, a source counts as picked if the first of its edges is.

    Picked edges always have importance weights; the plain mean of messages times these weights is the Hajek estimate of
    the mean, or weighted mean, over all in-edges.

    Attributes
    ----------
    fanout : int
        The number of in-edges per destination that gives the target precision, or -1 for all in-edges.
    importance : int or "*"
        Rounds, 1 to 1,000, or "*": until a round lowers the expected number of sources by at most 0.01 %.
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
    destination may have any number of edges, or none. No self-loops are added, and destinations have no advantage as
    sources. Parallel edges are kept or left out together, and each counts separately in q_t.

    Kept edges have importance weights P_ts / pi_t, where pi_t is the probability that t is drawn, scaled to average to
    1 per destination: the plain mean of messages times these weights is the Hajek estimate of the (weighted) mean over
    all in-edges.

    Attributes
    ----------
    size : int
        Sources per hop; all of them if there are not more, or if it is -1.
    poisson : bool
        False: exactly `size`, one after the other by score, without replacement. True: each independently with
        probability min(1, c * q_t), so that `size` is the expected number.
    """

    size: int
    poisson: bool = False

    def __post_init__(self) -> None:
        """Check the size."""
        _check_count("LadiesRule", "size", self.size, "sources")

    @property
    def kind(self) -> str:
        """Return the kind: an exact number of sources, or Poisson sampling."""
        return "ladies_poisson" if self.poisson else "ladies"

    @property
    def count(self) -> int:
        """Return the number of sources."""
        return self.size


@dataclass(frozen=True)
class ByRelation:
    """A rule for each relation of a graph with types.

    Each relation's in-edges of a destination are picked separately. LABOR's variates belong to source nodes, so
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
        """Whether each edge has its own variate, which parallel edges do not share."""
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
