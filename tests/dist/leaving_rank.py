"""One rank of a job in which rank 1 parts from the others; run by `leaving.py` with torchrun."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, nn

import headrace as hr

NUM_NODES = 200
PARTS_AT = 3  # the batch at which rank 1 parts


class Layer(nn.Linear):
    """A sum over in-edges."""

    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        sources, targets = block.edge_index
        out: Tensor = super().forward(h)
        return out[: block.num_dst] + torch.zeros_like(out[: block.num_dst]).index_add(0, targets, out[sources])


class Network(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(8, 8), Layer(8, 5)])

    def forward(self, h: Tensor, blocks: list[hr.Block]) -> Tensor:
        first, last = self.layers
        out: Tensor = last(torch.tanh(first(h, blocks[0])), blocks[1])
        return out


def make_loader(**options: object) -> hr.Loader:
    """Return the loader that all ranks make."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, 2000), generator=generator)
    x = torch.randn(NUM_NODES, 8, generator=generator)
    y = torch.randint(5, (NUM_NODES,), generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    store = hr.FeatureStore(node={"x": x, "y": y})
    plan = hr.ItemSampler(NUM_NODES, batch_size=10, shuffle=True, seed=7).sample_neighbor(graph, [4, 3])
    return plan.fetch_feature(store, node=["x"], labels="y").loader(cooperative=True, **options)


def train(loader: hr.Loader, scenario: str, note: object) -> None:
    """Run two epochs, the second one only where ranks leave the first together."""
    torch.manual_seed(0)
    model = hr.cooperative(Network())
    parts = torch.distributed.get_rank() == 1 or scenario == "together"

    def faulty(batch: hr.MiniBatch, at: str) -> bool:
        return parts and at == scenario and batch.index == PARTS_AT and batch.epoch == 0

    for _epoch in range(2 if scenario in ("none", "together") else 1):
        for batch in loader:
            for how in ("break", "break_and_stay", "together", "continue", "raise", "exit", "stop", "kill"):
                if faulty(batch, how):
                    note(parted=time.time())
            if faulty(batch, "break") or faulty(batch, "break_and_stay") or faulty(batch, "together"):
                break
            if faulty(batch, "continue"):
                continue
            if faulty(batch, "raise"):
                raise ValueError("the training loop of rank one is out of order")
            if faulty(batch, "exit"):
                sys.exit(3)
            if faulty(batch, "stop"):
                os.kill(os.getpid(), signal.SIGSTOP)
            if faulty(batch, "kill"):
                os.kill(os.getpid(), signal.SIGKILL)
            out = model(batch, batch.x, batch.blocks)[batch.seed_index]
            loss = nn.functional.cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds
            if faulty(batch, "continue_after_forward"):
                note(parted=time.time())
                continue
            loss.backward()
            if faulty(batch, "skip_the_sum"):
                note(parted=time.time())
                continue
            hr.sum_gradients(model)
            if faulty(batch, "break_behind_the_step"):
                note(parted=time.time())
                break
    if scenario == "break_and_stay" and parts:
        torch.distributed.barrier()  # to which nobody comes


def main() -> None:
    """Take part, and leave word of it in a file."""
    scenario, closing, timeout, folder = sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4])
    # torchrun ends the others when one fails; here they must end by themselves.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    word: dict[str, object] = {"pid": os.getpid()}

    def note(**what: object) -> None:
        word.update(what)
        path = folder / f"{torch.distributed.get_rank()}.json"
        path.with_suffix(".new").write_text(json.dumps(word))
        path.with_suffix(".new").rename(path)

    note(error="")
    try:
        loader = make_loader(prefetch=closing != "without_prefetch")
        with loader if closing == "with" else nullcontext():
            train(loader, scenario, note)
    except hr.PeerError as error:
        note(error=f"{type(error).__name__}: {error}", raised=time.time())
        raise
    note(done=time.time())


if __name__ == "__main__":
    main()
