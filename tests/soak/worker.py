"""A process of a soak: trains from the last checkpoint on, and writes what each batch was. See `soak.__main__`.

python worker.py FOLDER RANK WORLD_SIZE MEETING --threads 2 --seconds 20 [--faults 0.01]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import headrace as hr
from headrace.pipeline.run import lower

NUM_NODES, NUM_EDGES, WIDTH, NUM_CLASSES = 20_000, 300_000, 32, 8
BATCHES_OF_CHECKPOINT = 7


class InjectedError(Exception):
    """A fault that the soak has put into a stage."""


def write_data(folder: Path) -> None:
    """Write a graph and features to disk."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, NUM_EDGES), generator=generator)
    graph = hr.Graph.from_coo(
        src, dst, num_nodes=NUM_NODES, edge_attrs={"w": torch.rand(NUM_EDGES, generator=generator)}
    )
    x = torch.randn(NUM_NODES, WIDTH, generator=generator)
    store = hr.FeatureStore(
        node={"x": x, "y": torch.arange(NUM_NODES) % NUM_CLASSES}, edge={"w": torch.rand(NUM_EDGES)}
    )
    hr.save_dataset(folder, graph, store, items={"train": torch.arange(0, NUM_NODES, 2)}, progress=False)


def plan_over(folder: Path) -> hr.Plan:
    """Return the plan: LABOR with dependent batches, rows on disk by windows, weights of edges."""
    data = hr.open_dataset(folder)
    x = next(folder.rglob("*x*.npy"))
    store = hr.FeatureStore(node={"x": hr.DiskFeature(x), "y": data.store.node["y"]}, edge={"w": data.store.edge["w"]})
    return (
        hr.ItemSampler(data.items["train"], batch_size=256, shuffle=True, seed=7)
        .sample_layer_neighbor(data.graph, [6, 6], batch_dependency=8, weight="w")
        .fetch_feature(store, node=["x"], edge=["w"], labels="y")
    )


class Model(torch.nn.Module):
    """GraphSAGE of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = hr.nn.SAGEConv(WIDTH, 32), hr.nn.SAGEConv(32, NUM_CLASSES)

    def forward(self, batch: hr.MiniBatch) -> torch.Tensor:
        h = self.first(batch.x, batch.blocks[0]).relu()
        return self.second(h, batch.blocks[1])[batch.seed_index]


def inject(share: float) -> None:
    """Let any stage fail at a share of its batches."""
    plain, chance = lower.step_of, random.Random(os.getpid())

    def step_of(name: str, origin: str, stage: Any, run: Any, settings: Any) -> Any:
        def faulty(*arguments: Any) -> Any:
            if chance.random() < share:
                raise InjectedError(name)
            return run(*arguments)

        return plain(name, origin, stage, faulty, settings)

    lower.step_of = step_of


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("rank", type=int)
    parser.add_argument("world_size", type=int)
    parser.add_argument("meeting")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--faults", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.world_size > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{options.meeting}", rank=options.rank, world_size=options.world_size
        )
    kind = "faulty" if options.faults else "training"
    checkpoint, log = options.folder / f"{kind}.ckpt", options.folder / f"{kind}.log"
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if options.faults:
        inject(options.faults)
    loader = plan_over(options.folder / "data").loader(num_threads=options.threads)
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    begin, count = time.monotonic(), 0
    end = begin + options.seconds
    with log.open("a") as file:
        while time.monotonic() < end:
            try:
                for batch in loader:
                    loss = F.cross_entropy(model(batch), batch.y, reduction="sum") / batch.num_global_seeds
                    optimizer.zero_grad()
                    loss.backward()
                    if options.world_size > 1:
                        hr.sum_gradients(model.parameters())
                    optimizer.step()
                    line = {"epoch": batch.epoch, "batch": batch.index, "digest": batch.digest(), "pid": os.getpid()}
                    line |= {"rank": options.rank, "world_size": options.world_size, "mb": round(resident_mb(), 1)}
                    line["seconds"] = round(time.monotonic() - begin, 1)
                    file.write(json.dumps(line) + "\n")
                    file.flush()
                    count += 1
                    if count % BATCHES_OF_CHECKPOINT == 0 and options.rank == 0:
                        made = {"model": model.state_dict(), "loader": loader.state_dict()}
                        torch.save(made, checkpoint.with_suffix(".part"))
                        checkpoint.with_suffix(".part").replace(checkpoint)
                    if time.monotonic() > end and options.world_size == 1:
                        break
            except InjectedError as error:
                file.write(json.dumps({"fault": str(error), "note": "".join(getattr(error, "__notes__", []))}) + "\n")
                loader.load_state_dict(loader.state_dict())  # go on with the batch that failed, not with an epoch
    if options.world_size == 1:
        loader.close()


if __name__ == "__main__":
    main()
