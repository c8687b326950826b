"""Tables of random graphs that are computed as they are read: any size, in the memory of one number for each node.

Row i depends on the seed and on i alone: its random words are those of Philox4x64-10 under the key (seed, stream) at
counters that i names. The words are used as integers and as multiples of 2**-53, so that other versions of NumPy draw
the same. Models:

=============  =======================================================================================================
"rmat"         each bit of the ends of an edge falls in a quadrant with the probabilities 0.57, 0.19, 0.19, 0.05
"chung-lu"     both ends of an edge are drawn by popularity, which falls as a power of a node's rank
"dc-sbm"       the same, but with probability `inside` both ends are in one of `blocks` ranges of nodes
"relational"   users rate items with times and weights, users follow users, items have tags; ends as in "chung-lu"
=============  =======================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable, Options
from headrace.pipeline.convert.table import Column, Table
from headrace.pipeline.data import whole_number

MODELS = ("rmat", "chung-lu", "dc-sbm", "relational")

#: Shares of rows in the first three quadrants of R-MAT, of Graph500, in steps of 2**-32.
_QUADRANTS = np.array([0.57, 0.76, 0.95]) * 2.0**32

#: Of nodes, in tenths: train, then val, then test.
_SPLITS = np.array(["train"] * 6 + ["val"] * 2 + ["test"] * 2, object)

_INT64, _FLOAT32 = Column(np.dtype(np.int64)), Column(np.dtype(np.float32))

#: The least that numbers of a shape may be.
_LEAST = {"num_nodes": 2, "num_edges": 1, "features": 0, "classes": 1, "blocks": 1, "seed": 0}

#: Numbers of the centres of all classes.
_MOST_CENTRES = 1 << 26

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Shape:
    """What a generated graph is like.

    Parameters
    ----------
    num_nodes, num_edges
        Of "relational": users, and ratings; there are half as many items and a tenth as many tags.
    features, classes
        Numbers of a feature "x", and classes of a label "y".
    exponent
        Of popularity, by rank.
    blocks, inside
        Of "dc-sbm": blocks, and the share of edges within them.
    """

    num_nodes: int
    num_edges: int
    features: int = 16
    classes: int = 8
    exponent: float = 0.6
    blocks: int = 100
    inside: float = 0.8
    seed: int = 0


def generated(model: str, shape: Shape, options: Options | None = None) -> Description:
    """Return the tables of a random graph.

    Raises
    ------
    InputError
        If a number is out of range, or there is no such model.
    """
    if model not in MODELS:
        raise InputError(f"generate: expected a model of {', '.join(MODELS)}, got {model!r}")
    for name, least in _LEAST.items():
        whole_number(getattr(shape, name), f"generate: {name}", least, InputError, (1 << 48) - 1)
    if (largest := shape.features * shape.classes) > _MOST_CENTRES:
        raise InputError(
            f"generate: expected features * classes of at most {_MOST_CENTRES:,}, the numbers that are kept in memory, "
            f"got {largest:,}; lower one of them"
        )
    if not (0 <= shape.inside <= 1 and 0 <= shape.exponent < math.inf):
        raise InputError(f"generate: expected inside in [0, 1] and an exponent of at least 0, got {shape}")
    options = Options() if options is None else options
    count = shape.num_nodes
    popular = None if model == "rmat" else _Popular(count, shape.exponent)
    if popular is None:
        ends: Callable[[Words], tuple[NDArray[Any], NDArray[Any]]] = _rmat(count)
        words = 4 * math.ceil(_levels(count) / 8)
    elif model == "dc-sbm":
        ends, words = _in_blocks(popular, min(shape.blocks, count), shape.inside), 4
    else:
        ends, words = _pairs(popular, popular), 4
    if model != "relational":
        nodes = _nodes("node", count, shape, 2, block_of=_block_of(model, count, min(shape.blocks, count)))
        return Description([EdgeTable(_edges("edges", shape, shape.num_edges, ends, words, 1))], [nodes], (), options)
    assert popular is not None  # it is not R-MAT
    items, tags = (_Popular(max(1, count // part), shape.exponent) for part in (2, 10))
    ratings = _edges("ratings", shape, shape.num_edges, _pairs(popular, items), 4, 1, rated=True)
    follows = _edges("follows", shape, max(1, shape.num_edges // 4), ends, 4, 3)
    tagged = _edges("tagged", shape, max(1, 3 * items.num_nodes), _pairs(items, tags), 4, 4)
    return Description(
        [
            EdgeTable(ratings, ("user", "rates", "item"), weight="weight", time="time"),
            EdgeTable(follows, ("user", "follows", "user")),
            EdgeTable(tagged, ("item", "has", "tag")),
        ],
        [
            _nodes("user", count, shape, 2),
            _nodes("item", items.num_nodes, shape, 5),
            NodeTable("tag", num_nodes=tags.num_nodes),
        ],
        (),
        options,
    )


class _Generated(Table):
    """Rows computed of the random words of each."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        num_rows: int,
        columns: Mapping[str, Column],
        words: int,
        stream: int,
        compute: Callable[[Words, int, str], NDArray[Any]],
    ) -> None:
        self.name, self.num_rows, self.columns = name, num_rows, columns
        self._words, self._key, self._compute = words, (shape.seed, stream), compute
        self.identity = f"{stream} of {shape}"

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        assert self.num_rows is not None
        for start in range(0, self.num_rows, rows):
            count = min(rows, self.num_rows - start)
            # Each counter gives four words.
            stream = np.random.Philox(counter=start * self._words // 4, key=np.array(self._key, np.uint64))
            words = stream.random_raw(count * self._words).reshape(count, self._words)
            yield {name: self._compute(words, start, name) for name in columns}


class _Popular:
    """Nodes drawn by popularity: that of rank r is proportional to (r + 1) ** -exponent."""

    def __init__(self, num_nodes: int, exponent: float) -> None:
        self.num_nodes = num_nodes
        # A step that shares no divisor with the number of nodes gives each node one rank.
        step = next(
            one for one in range(int(num_nodes * 0.618) | 1, 2 * num_nodes + 3) if math.gcd(one, num_nodes) == 1
        )
        ranks = np.arange(num_nodes, dtype=np.int64)
        ranks *= step
        ranks %= num_nodes
        # Rounded, as powers differ in the last bits between machines.
        weights = ((ranks + 1.0) ** -exponent).astype(np.float32)
        self.below = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])

    def drawn(self, words: Words, low: Any = 0.0, high: Any = None) -> NDArray[np.int64]:
        """Return the nodes at random places between two."""
        span = (self.below[-1] if high is None else high) - low
        places = np.searchsorted(self.below, low + _reals(words) * span, side="right") - 1
        found: NDArray[np.int64] = places.clip(0, self.num_nodes - 1)
        return found


def _pairs(one: _Popular, other: _Popular) -> Callable[[Words], tuple[NDArray[Any], NDArray[Any]]]:
    return lambda words: (one.drawn(words[:, 0]), other.drawn(words[:, 1]))


def _in_blocks(nodes: _Popular, blocks: int, inside: float) -> Callable[[Words], tuple[NDArray[Any], NDArray[Any]]]:
    starts = np.arange(blocks + 1) * nodes.num_nodes // blocks

    def ends(words: Words) -> tuple[NDArray[Any], NDArray[Any]]:
        src, dst = nodes.drawn(words[:, 0]), nodes.drawn(words[:, 1])
        own = np.searchsorted(starts, src, side="right") - 1
        within = nodes.drawn(words[:, 1], nodes.below[starts[own]], nodes.below[starts[own + 1]])
        within = within.clip(starts[own], starts[own + 1] - 1)
        return src, np.where(_reals(words[:, 2]) < inside, within, dst)

    return ends


def _rmat(num_nodes: int) -> Callable[[Words], tuple[NDArray[Any], NDArray[Any]]]:
    def ends(words: Words) -> tuple[NDArray[Any], NDArray[Any]]:
        halves = np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], 2).reshape(len(words), -1)
        src, dst = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
        for level in range(_levels(num_nodes)):
            quadrant = np.searchsorted(_QUADRANTS, halves[:, level].astype(np.float64), side="right")
            src, dst = 2 * src + quadrant // 2, 2 * dst + quadrant % 2
        return src % num_nodes, dst % num_nodes  # of a number that is no power of two the last ids come twice

    return ends


def _levels(num_nodes: int) -> int:
    return max(1, (num_nodes - 1).bit_length())


def _edges(
    name: str,
    shape: Shape,
    num_edges: int,
    ends: Callable[[Words], tuple[NDArray[Any], NDArray[Any]]],
    words: int,
    stream: int,
    *,
    rated: bool = False,
) -> Table:
    columns = {"src": _INT64, "dst": _INT64} | ({"weight": _FLOAT32, "time": _INT64} if rated else {})

    def compute(own: Words, start: int, column: str) -> NDArray[Any]:
        if column == "time":
            return np.arange(start, start + len(own), dtype=np.int64)
        if column == "weight":
            return (1 + own[:, 3] % np.uint64(5)).astype(np.float32)
        return ends(own)[column == "dst"]

    return _Generated(name, shape, num_edges, columns, words, stream, compute)


def _nodes(
    name: str, count: int, shape: Shape, stream: int, *, block_of: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> NodeTable:
    """Return nodes with a label, a feature that depends on it, and a split."""
    width = shape.features
    centres = np.random.Philox(key=np.array([shape.seed, 100 + stream], np.uint64)).random_raw(shape.classes * width)
    of_class = 2 * _reals(centres).reshape(shape.classes, width) - 1
    columns = {"y": _INT64, "split": Column(np.dtype(object))} | (
        {"x": Column(np.dtype(np.float32), (width,))} if width else {}
    )

    def compute(own: Words, start: int, column: str) -> NDArray[Any]:
        ids = np.arange(start, start + len(own), dtype=np.int64)
        label = (own[:, 0] % np.uint64(shape.classes)).astype(np.int64)
        label = label if block_of is None else block_of(ids) % shape.classes
        if column == "y":
            return label
        if column == "split":
            return _SPLITS[(own[:, 1] % np.uint64(10)).astype(np.int64)]
        noise = _reals(own[:, 2 : 2 + width]) + _reals(own[:, 2 + width : 2 + 2 * width]) - 1
        return (of_class[label] + 2 * noise).astype(np.float32)

    table = _Generated(name, shape, count, columns, 4 * math.ceil((2 + 2 * width) / 4), stream, compute)
    return NodeTable(name, table, features={"x": "x"} if width else {}, labels={"y": "y"}, splits="split")


def _block_of(model: str, num_nodes: int, blocks: int) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    if model != "dc-sbm":
        return None
    starts = np.arange(blocks + 1) * num_nodes // blocks
    return lambda ids: np.searchsorted(starts, ids, side="right") - 1


def _reals(words: Words) -> NDArray[np.float64]:
    """Return numbers in [0, 1): the upper 53 bits of each word."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
