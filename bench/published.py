"""The published table of layer sampling: three hops of fan-out 10, batches of 1000 (arXiv 2210.13339).

Thousands of nodes and edges that a batch reaches, hop by hop, and iterations of training on a GPU a second. Keys are
those of `graphs.SHAPES`.
"""

from __future__ import annotations

from typing import NamedTuple

NS, LABOR_0, LABOR_1, LABOR_STAR, LADIES, PLADIES = "NS", "LABOR-0", "LABOR-1", "LABOR-*", "LADIES", "PLADIES"
COLUMNS = ("|V3|", "|E2|", "|V2|", "|E1|", "|V1|", "|E0|")


class Row(NamedTuple):
    """Thousands of nodes and edges, in the order of `COLUMNS`, and iterations a second."""

    counts: tuple[float, float, float, float, float, float]
    rate: float


PUBLISHED: dict[str, dict[str, Row]] = {
    "flickr": {
        PLADIES: Row((55, 309, 24.9, 85, 6.2, 6.9), 10.2),
        LADIES: Row((56, 308, 25.1, 85, 6.2, 6.9), 10.5),
        LABOR_STAR: Row((57, 308, 25.6, 85, 6.3, 6.9), 20.3),
        LABOR_1: Row((58, 242, 25.9, 73, 6.3, 6.9), 32.7),
        LABOR_0: Row((66, 219, 29.1, 52, 6.4, 6.7), 33.3),
        NS: Row((73, 244, 32.8, 52, 6.4, 6.7), 31.7),
    },
    "yelp": {
        PLADIES: Row((100, 1300, 29.5, 183, 6.2, 6.9), 5.1),
        LADIES: Row((102, 1280, 29.7, 182, 6.2, 6.9), 5.3),
        LABOR_STAR: Row((105, 991, 30.7, 158, 6.1, 6.8), 13.3),
        LABOR_1: Row((109, 447, 31.0, 96, 6.2, 6.8), 27.3),
        LABOR_0: Row((138, 318, 35.1, 54, 6.2, 6.3), 27.2),
        NS: Row((188, 392, 42.5, 55, 6.3, 6.3), 23.0),
    },
    "products-footprint": {
        PLADIES: Row((160, 2380, 51.2, 293, 9.7, 11.7), 4.1),
        LADIES: Row((165, 2230, 51.8, 270, 9.7, 11.5), 4.2),
        LABOR_STAR: Row((166, 1250, 51.8, 167, 9.8, 10.6), 6.2),
        LABOR_1: Row((178, 799, 53.4, 136, 9.8, 10.5), 21.3),
        LABOR_0: Row((237, 615, 62.4, 100, 10.1, 9.9), 32.5),
        NS: Row((513, 944, 95.4, 106, 10.6, 9.9), 24.6),
    },
    "reddit": {
        PLADIES: Row((24, 2390, 14.1, 927, 6.0, 33.2), 1.7),
        LADIES: Row((25, 2270, 14.5, 852, 6.0, 32.5), 1.8),
        LABOR_STAR: Row((24, 1070, 13.7, 435, 6.0, 26.9), 4.1),
        LABOR_1: Row((27, 261, 14.4, 116, 6.1, 16.7), 24.8),
        LABOR_0: Row((36, 177, 17.8, 67, 6.8, 9.6), 37.6),
        NS: Row((167, 682, 68.3, 100, 10.1, 9.7), 14.2),
    },
}


def published_ratio(shape: str, other: str) -> float:
    """Return how many times more nodes neighbour sampling reaches with its last hop than another method."""
    return PUBLISHED[shape][NS].counts[0] / PUBLISHED[shape][other].counts[0]
