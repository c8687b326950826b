"""Train from a feature file larger than the memory of this process, and measure its disk beside that.

A process of its own, which tiering_disk.py starts in a memory group. One line of JSON comes out: losses and batches of
a training, and, of a limited process, what was measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from disk_reads import forget, raw_rate
from harness import Gain, Metrics, Record, System, interleave
from torch import nn
from torch.nn import functional

import headrace as hr

CLASSES, HIDDEN, FANOUTS = 8, 32, [10, 5]
RAW, TRAINING, MAP = "raw random reads", "training, DiskFeature", "rows by np.memmap"
WARM_UP_BATCHES = 8  # more than are read ahead while other systems have their turn


class Sage(nn.Module):
    """Two layers of mean aggregation over narrow messages: what is measured is reading."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, HIDDEN)
        self.own = nn.ModuleList([nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)])
        self.neighbors = nn.ModuleList([nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)])

    def forward(self, batch: hr.MiniBatch) -> torch.Tensor:
        x = self.first(batch.x)
        for own, neighbors, block in zip(self.own, self.neighbors, batch.blocks, strict=True):
            starts = block.indptr[:-1].to(block.indices.dtype)
            x = own(x[: block.num_dst]) + neighbors(functional.embedding_bag(block.indices, x, starts, mode="mean"))
            x = functional.relu(x)
        return x


def loader_of(folder: Path, x: Any, batch_size: int) -> hr.Loader:
    graph = hr.Graph.from_csc(np.load(folder / "indptr.npy"), np.load(folder / "indices.npy"))
    store = hr.FeatureStore(node={"x": x, "y": np.load(folder / "y.npy")})
    items = hr.ItemSampler(graph.num_nodes, batch_size=batch_size, shuffle=True, seed=3)
    return (
        items.sample_neighbor(graph, FANOUTS).fetch_feature(store, node=["x"], labels="y").prefetch(workers=2).loader()
    )


class Training:
    """A training that goes on where it was left, some batches at a time."""

    def __init__(self, loader: hr.Loader, width: int) -> None:
        torch.manual_seed(0)
        self._batches, self._model = iter(loader), Sage(width)
        self._optimiser = torch.optim.Adam(self._model.parameters(), lr=1e-3)
        self.losses: list[float] = []
        self.digests: list[str] = []

    def step(self) -> int:
        """Train on one batch; return the rows that it has."""
        batch = next(self._batches)
        assert batch.y is not None  # the plan fetches labels
        loss = functional.cross_entropy(self._model(batch), batch.y)
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        self.losses.append(loss.item())
        self.digests.append(batch.digest())
        return len(batch.x)

    def rate(self, num_batches: int) -> float:
        """Return rows a second: not counting batches that were read ahead before."""
        for _ in range(WARM_UP_BATCHES):
            self.step()
        started = time.perf_counter()
        rows = sum(self.step() for _ in range(num_batches))
        return rows / (time.perf_counter() - started)


def measured(folder: Path, options: dict[str, Any], training: Training, direct: bool) -> list[Record]:
    path, row_bytes, rows = folder / "x.npy", 4 * options["width"], options["rows"]
    start = path.stat().st_size - rows * row_bytes
    depth = options["depth"]
    gather = partial(hr.DiskFeature, path, direct=direct, queue_depth=depth)
    mapped = hr.FeatureStore(node={"x": np.load(path, mmap_mode="r")}).node["x"]

    def ids_of(number: int, count: int) -> torch.Tensor:
        return torch.randint(rows, (count,), generator=torch.Generator().manual_seed(number))

    def reading(source: Any, count: int, number: int) -> Metrics:
        ids = ids_of(number, count)
        forget(path)
        started = time.perf_counter()
        source.read(ids, num_threads=os.cpu_count())
        return _rate(count / (time.perf_counter() - started), row_bytes)

    def raw(number: int) -> Metrics:
        offsets = start + ids_of(number, options["reads"]).numpy() * row_bytes
        return _rate(raw_rate(path, offsets, row_bytes, depth=depth, direct=direct), row_bytes)

    def train(_: int) -> Metrics:
        forget(path)
        return _rate(training.rate(options["batches"]), row_bytes)

    count = options["reads"]
    systems: dict[str, Callable[[int], Metrics]] = {
        RAW: raw,
        TRAINING: train,
        "rows by DiskFeature": partial(reading, gather(), count),
        "rows by DiskFeature, none merged": partial(reading, gather(gap_bytes=0), count),
        "rows by DiskFeature, threads": partial(reading, gather(engine="threads"), count),
        MAP: partial(reading, mapped, count // 128),  # of which each takes milliseconds
    }
    gains = [(TRAINING, RAW), ("rows by DiskFeature", RAW), ("rows by DiskFeature", MAP)]
    gains.append(("rows by DiskFeature", "rows by DiskFeature, none merged"))
    way = "past the page cache" if direct else "through the page cache"
    return interleave(
        "tiering: disk",
        f"{path.stat().st_size / 2**20:,.0f} MiB of rows of {row_bytes} B, {options['limit']}, {depth} at once, {way}",
        [System(name, run) for name, run in systems.items()],
        rounds=options["rounds"],
        gains=[Gain((ours, 1), (other, 1), "read rate") for ours, other in gains],
        warm_up=1,
    )


def _rate(rows: float, row_bytes: int) -> Metrics:
    return {"read rate": rows / 1e3, "row rate": rows * row_bytes / 1e9}


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    records: list[Record] = []
    runs = []
    for direct in (False, True) if options["measure"] else (False,):
        x = np.load(folder / "x.npy") if options["in_memory"] else hr.DiskFeature(folder / "x.npy", direct=direct)
        training = Training(loader_of(folder, x, options["batch_size"]), options["width"])
        if options["measure"]:
            records += measured(folder, options, training, direct)
        else:
            for _ in range(options["steps"]):
                training.step()
        runs.append({"losses": training.losses, "digests": training.digests})
        del training, x  # what they hold makes room for the next one
    print(json.dumps({"runs": runs, "records": [asdict(record) for record in records]}))


if __name__ == "__main__":
    main()
