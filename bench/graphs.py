"""Generator graphs: seeded, made once, kept in bench/cache as arrays that every environment can map.

The data sets themselves are not here. Two families of graphs stand in for them:

- `skewed_edges`: Pareto popularity, directed, no edge twice. "small", "coauthor" and "products" are of this family; all
  timings of kernels against peers are taken on "products".
- `undirected_edges`: log-normal popularity, both directions of every edge, as the data sets behind the published table
  of LABOR (arXiv 2210.13339) have them. "flickr", "yelp", "reddit" and "products-footprint" are of this family: their
  sizes are published, and the numbers in `Footprint` were chosen so that *neighbour sampling* reaches about as many
  nodes and edges, hop by hop, as it does there. They are not fitted to what other samplers reach, with one
  exception: several choices fit yelp, and `alike` is used because LABOR's advantage is a third too large without it.

The first family has as many distinct edges as its sizes say, as the graphs that it stands for have. That is its version
2; version 1, of which the figures in RESULTS.md are until they are taken anew, drew as many edges and kept repeated
ones, a third of those in a sample's rows. The second family still keeps repeated edges: what it is fitted to was fitted
with them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE = Path(__file__).resolve().parent / "cache"
GROUP = 500
INSIDE = 0.6
PARETO = 1.6
CHUNK = 1 << 24


@dataclass(frozen=True)
class Footprint:
    """What decides how fast neighbourhoods grow, next to the mean degree.

    Parameters
    ----------
    deviation
        Standard deviation of the logarithm of a node's popularity: the skew of the degrees.
    group, inside
        Nodes are in groups of this size, and this share of the edges stays within one.
    alike
        How much of the variance of the popularity's logarithm is that of groups: 1 if all of a group are as popular.
    train, bias
        Share of the nodes that batches are drawn from, and how much they are the popular ones: 0 not at all.
    """

    deviation: float
    group: int
    inside: float
    train: float
    bias: float = 0.0
    alike: float = 0.0


@dataclass(frozen=True)
class Shape:
    """Sizes of a graph; `footprint` says that it is of the undirected family. `width` is that of its features."""

    num_nodes: int
    num_edges: int
    width: int = 100
    footprint: Footprint | None = None


SHAPES = {
    "small": Shape(200_000, 5_000_000),
    # As small as many a first graph: the sizes of Coauthor Physics, with the skew of the first family.
    "coauthor": Shape(34_493, 495_924),
    "flickr": Shape(89_250, 900_000, 500, Footprint(0.9, 500, 0.0, 0.5)),
    "yelp": Shape(717_000, 14_000_000, 300, Footprint(1.6, 500, 0.7, 0.75, alike=0.5)),
    # ogbn-products, which has no generator of its own: its sizes, with the skew of the first family.
    "products": Shape(2_449_029, 61_431_938),
    "products-eighth": Shape(2_449_029 // 8, 61_431_938 // 8),
    # Both directions of the published 61.9 million; its training nodes are the popular products.
    "products-footprint": Shape(2_449_029, 123_800_000, 100, Footprint(1.4, 1_000, 0.75, 0.08, bias=0.5)),
    "reddit": Shape(233_000, 115_000_000, 602, Footprint(1.2, 5_000, 0.7, 0.66)),
}


def cached_csc(name: str) -> Path:
    """Return a folder with ``indptr.npy`` (int64[num_nodes + 1]) and ``indices.npy`` (int32[num_edges]).

    Graphs of the undirected family come with ``train.npy`` (int64[num_train]) as well.
    """
    shape = SHAPES[name]
    folder = CACHE / f"{name}-v{_version(shape)}"
    if not (folder / "indptr.npy").exists():
        from headrace.ops import coo_to_csc

        folder.mkdir(parents=True, exist_ok=True)
        if shape.footprint is None:
            src, dst = skewed_edges(shape, seed=0)
        else:
            src, dst, train = undirected_edges(shape, shape.footprint, seed=0)
            np.save(folder / "train.npy", train)
        csc = coo_to_csc(src, dst, shape.num_nodes)
        np.save(folder / "indices.npy", csc.indices.numpy())
        # Last: its presence says that the folder is complete.
        np.save(folder / "indptr.npy", csc.indptr.numpy())
    return folder


def cached_coo(name: str) -> Path:
    """Return a folder with ``src.npy`` and ``dst.npy`` (int32[num_edges]), edges in no order."""
    shape = SHAPES[name]
    folder = CACHE / f"{name}-coo-v{_version(shape)}"
    if not (folder / "dst.npy").exists():
        src, dst = (
            skewed_edges(shape, seed=0)
            if shape.footprint is None
            else undirected_edges(shape, shape.footprint, seed=0)[:2]
        )
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "src.npy", src)
        np.save(folder / "dst.npy", dst)
    return folder


def cached_weights(name: str) -> Path:
    """Return a file with a weight in (0, 1] for each edge of `cached_csc`, float32[num_edges]."""
    path = cached_csc(name) / "weights.npy"
    if not path.exists():
        num_edges = len(np.load(path.with_name("indices.npy"), mmap_mode="r"))
        np.save(path, 1 - np.random.default_rng(1).random(num_edges, dtype=np.float32))
    return path


def cached_train(name: str) -> NDArray[np.int64]:
    """Return the nodes that batches are drawn from: the training nodes, or all where a shape has none."""
    path = cached_csc(name) / "train.npy"
    return np.load(path) if path.exists() else np.arange(SHAPES[name].num_nodes)


def _version(shape: Shape) -> int:
    """Return that of a family's cached graphs: another one whenever its edges change."""
    return 2 if shape.footprint is None else 1


def seeds_of(number: int, train: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """Return the unique seeds of a round, the same for every system."""
    return np.random.default_rng([1, number]).choice(train, batch_size, replace=False)


def skewed_edges(shape: Shape, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw distinct edges between nodes of Pareto popularity, most of them within groups, under scrambled ids.

    The groups are what reordering could find; scrambling makes sure that nobody finds them by accident.
    """
    random = np.random.default_rng(seed)
    popularity = np.cumsum(random.pareto(PARETO, shape.num_nodes) + 1)
    popularity /= popularity[-1]

    def popular(count: int) -> NDArray[Any]:
        return np.searchsorted(popularity, random.random(count))

    def drawn(count: int) -> NDArray[np.int64]:
        """Edges as dst * num_nodes + src."""
        dst, src = popular(count), popular(count)
        inside = random.random(count) < INSIDE
        neighbor = dst[inside] // GROUP * GROUP + random.integers(0, GROUP, int(inside.sum()))
        src[inside] = np.minimum(neighbor, shape.num_nodes - 1)
        return dst * shape.num_nodes + src

    # Draw until there are enough distinct ones, and drop those too many at random: each edge is as likely to stay.
    edges = np.empty(0, np.int64)
    while len(edges) < shape.num_edges:
        edges = np.union1d(edges, drawn(shape.num_edges // 2 + 1))
    random.shuffle(edges)
    dst, src = np.divmod(edges[: shape.num_edges], shape.num_nodes)
    scrambled = random.permutation(shape.num_nodes).astype(np.int32)
    return scrambled[src], scrambled[dst]


def undirected_edges(
    shape: Shape, footprint: Footprint, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Draw edges between nodes of log-normal popularity, in both directions, and the training nodes.

    The expected degree of a node is proportional to its popularity, within its group and outside (a degree-corrected
    block model, arXiv 1008.3926, with groups of one size). Ids are scrambled.
    """
    random = np.random.default_rng(seed)
    groups = random.standard_normal(shape.num_nodes // footprint.group + 1).repeat(footprint.group)[: shape.num_nodes]
    own = random.standard_normal(shape.num_nodes)
    normal = footprint.alike**0.5 * groups + (1 - footprint.alike) ** 0.5 * own
    below = np.concatenate([[0.0], np.cumsum(np.exp(footprint.deviation * normal))])
    scrambled = random.permutation(shape.num_nodes).astype(np.int32)

    def nodes(places: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(below, places, side="right") - 1, shape.num_nodes - 1)

    def halves() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        left = shape.num_edges // 2
        while left:
            count = min(left, CHUNK)
            left -= count
            # Sorted places are found several times faster; the order of edges means nothing.
            one = nodes(np.sort(random.random(count)) * below[-1])
            inside = random.random(count) < footprint.inside
            first = one // footprint.group * footprint.group
            low = np.where(inside, below[first], 0.0)
            high = np.where(inside, below[np.minimum(first + footprint.group, shape.num_nodes)], below[-1])
            other = nodes(low + random.random(count) * (high - low))
            yield scrambled[one], scrambled[other]

    ends = [np.concatenate(side) for side in zip(*halves(), strict=True)]
    score = footprint.bias * normal + random.standard_normal(shape.num_nodes)
    train = scrambled[np.argsort(-score)[: round(footprint.train * shape.num_nodes)]]
    return np.concatenate(ends), np.concatenate(ends[::-1]), np.sort(train).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write generator graphs into bench/cache, where they are missing.")
    parser.add_argument("shapes", nargs="+", choices=SHAPES)
    for name in parser.parse_args().shapes:
        degrees = np.diff(np.load(cached_csc(name) / "indptr.npy"))
        print(f"{name}: {degrees.size:,} nodes, {degrees.sum():,} edges, largest in-degree {degrees.max():,}")


if __name__ == "__main__":
    main()
