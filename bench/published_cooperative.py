"""What is published on cooperative minibatching (arXiv 2310.12403), and what a simulation of its work law gave.

The run times are those of the tables in "Accelerating GNN Dataloading on Multi-GPU Systems: dgl.graphbolt" (Balin,
2024): three layers of fan-out 10, milliseconds an iteration; the copy is of features past a cache, as in their total.
"""

from __future__ import annotations

from typing import NamedTuple

LABOR_0, NS = "LABOR-0", "NS"
INDEPENDENT, COOPERATIVE = "independent", "cooperative"

# By the number of ranks P, on the graph of chung_lu.py: |S3| summed over P independent batches of so many seeds, over
# that of their union; and |S1|, with either sampler.
SEEDS_OF_RATIOS = 1024
RATIOS = {LABOR_0: {2: 1.79, 4: 3.38, 8: 6.59}, NS: {2: 1.83, 4: 3.52, 8: 6.92}}
FIRST_HOP_RATIOS = {2: 1.08, 4: 1.22, 8: 1.49}
# |S3| a seed, by the size of the batch.
WORK = {
    LABOR_0: {256: 173.0, 512: 114.0, 1024: 69.5, 2048: 39.0, 4096: 20.7, 8192: 10.6, 16384: 5.35},
    NS: {256: 189.0, 512: 124.0, 1024: 73.9, 2048: 40.4, 4096: 21.0, 8192: 10.7, 16384: 5.37},
}


class Hardware(NamedTuple):
    """GPUs, and bytes a second: between two of them, between one and the memory of its host, and its own memory.

    Bandwidths of links are of both directions together, as published.
    """

    name: str
    num_gpus: int
    peer: float
    host: float
    memory: float
    seeds: int


HARDWARE = (
    Hardware("4 A100", 4, 600e9, 64e9, 2e12, 1 << 12),
    Hardware("8 A100", 8, 600e9, 64e9, 2e12, 1 << 13),
    Hardware("16 V100", 16, 300e9, 32e9, 0.9e12, 1 << 13),
)
# Of a machine of 2024 in the same source.
SYSTEM_MEMORY = 2e12


class Times(NamedTuple):
    """Milliseconds an iteration: sampling, copying features without and with a cache, forward and backward, all."""

    sampling: float
    copy: float
    cached_copy: float
    model: float
    total: float


# papers100M and a GCN. The total of LABOR-0 is with dependent batches (κ), whose copy takes less than the one here.
RUN_TIMES = {
    ("4 A100", LABOR_0, INDEPENDENT): Times(21.7, 18.4, 16.8, 8.9, 41.8),
    ("4 A100", LABOR_0, COOPERATIVE): Times(17.7, 14.0, 10.1, 13.0, 36.5),
    ("4 A100", NS, INDEPENDENT): Times(16.1, 26.5, 22.1, 10.1, 48.3),
    ("4 A100", NS, COOPERATIVE): Times(11.9, 21.3, 12.9, 15.0, 39.8),
    ("8 A100", LABOR_0, INDEPENDENT): Times(21.3, 21.1, 18.7, 9.3, 42.6),
    ("8 A100", LABOR_0, COOPERATIVE): Times(16.5, 12.4, 7.1, 13.5, 34.0),
    ("8 A100", NS, INDEPENDENT): Times(15.8, 31.0, 24.5, 10.3, 50.6),
    ("8 A100", NS, COOPERATIVE): Times(12.5, 19.4, 9.0, 15.6, 37.1),
    ("16 V100", LABOR_0, INDEPENDENT): Times(39.1, 44.5, 40.2, 15.1, 83.6),
    ("16 V100", LABOR_0, COOPERATIVE): Times(26.9, 22.7, 10.4, 19.1, 50.9),
    ("16 V100", NS, INDEPENDENT): Times(18.0, 61.3, 52.0, 16.2, 86.2),
    ("16 V100", NS, COOPERATIVE): Times(19.2, 34.9, 13.0, 21.3, 53.5),
}
