"""One rank of the time and network parts of cooperative.py: a process of gloo, started with its settings as JSON.

Three systems run in turns on the same batches: independent loading, cooperative loading, and *bare*, which is what no
cooperative loader can do without: the very collectives, with the sizes that the loader's had, and the kernels alone,
sampling each layer's owned nodes and gathering the rows of those behind the last. What cooperative loading takes
beyond the bare time is the library's own: grouping ids by owner, renumbering what others ask for, packing and unpacking
rows, and Python.

The last line of standard output is a JSON object of what was measured.
"""

from __future__ import annotations

import cProfile
import ctypes
import json
import pstats
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
from cooperative_work import FANOUTS
from graphs import seeds_of
from work import identified, table

import headrace as hr
from headrace import ops

SEED = 0
PROBE_BYTES = 1 << 26
PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Round:
    """One exchange of a batch: what this rank owns of the layer, what it wanted, and how many rows go and come."""

    owned: torch.Tensor
    wanted: torch.Tensor
    sent: list[int]
    received: list[int]


@dataclass(frozen=True)
class Recorded:
    """The exchanges of a batch, that of the seeds first."""

    index: int
    rounds: tuple[Round, ...]


def recorded(batch: hr.MiniBatch) -> Recorded:
    """Return the sizes of a cooperative batch's exchanges; one rank alone owns and wants everything, and sends none."""
    if batch.exchanges:
        exchanged = reversed(batch.exchanges)
        return Recorded(
            batch.index, tuple(Round(e.owned, e.wanted, list(e.send_counts), list(e.receive_counts)) for e in exchanged)
        )
    layers = [batch.n_id[:count] for count in np.cumsum(batch.num_sampled_nodes)]
    return Recorded(batch.index, tuple(Round(layer, layer, [0], [0]) for layer in layers))


class Bare:
    """The collectives and the kernels of cooperative loading, and nothing else."""

    def __init__(self, graph: hr.Graph, x: torch.Tensor, threads: int, batches: Sequence[Recorded]) -> None:
        self._sampler = ops.BlockSampler(graph.indptr, graph.indices)
        self._x, self._threads, self._batches = x, threads, batches
        most = max(sum(batch.rounds[-1].sent) for batch in batches)
        # Kept from batch to batch: a fresh tensor of this size would take longer than the collective.
        self._to_send = torch.zeros(most, x.shape[1])
        self._rows = torch.zeros(max(sum(batch.rounds[-1].received) for batch in batches), x.shape[1])
        self._asked = torch.zeros(max(sum(r.sent) for batch in batches for r in batch.rounds), dtype=torch.int64)
        self._ids = torch.zeros(max(sum(r.received) for batch in batches for r in batch.rounds), dtype=torch.int64)
        self._world_size = torch.distributed.get_world_size()
        self._ones = torch.ones(self._world_size, dtype=torch.int64)

    def epoch(self, *, check: bool = False) -> dict[str, float]:
        """Run all batches; return the seconds of each part. `check`: whether the edges are those of the loader."""
        seconds = dict.fromkeys(("sampling", "gather", "collectives of ids", "collectives of rows"), 0.0)

        @contextmanager
        def timed(part: str) -> Iterator[None]:
            started = time.perf_counter()
            yield
            seconds[part] += time.perf_counter() - started

        for batch in self._batches:
            for layer, exchanged in enumerate(batch.rounds):
                if self._world_size > 1:
                    with timed("collectives of ids"):
                        self._exchange_ids(exchanged)
                if layer < len(FANOUTS):
                    key = ops.stream_key(SEED, 0, batch.index, layer, ops.rng.NEIGHBOR)
                    with timed("sampling"):
                        sampled = self._sample(exchanged, layer, key)
                    if check and not torch.equal(
                        sampled.n_id.long().sort().values, batch.rounds[layer + 1].wanted.sort().values
                    ):
                        raise ValueError("expected the bare kernel to find what the loader's found")
            with timed("gather"):
                ops.gather_rows(self._x, batch.rounds[-1].owned, num_threads=self._threads)
            if self._world_size > 1:
                with timed("collectives of rows"):
                    self._exchange_rows(batch.rounds[-1])
        return seconds

    def _sample(self, exchanged: Round, layer: int, key: Any) -> Any:
        rules = [ops.LaborRule(FANOUTS[layer])]
        return self._sampler.sample(exchanged.owned, rules, [key], edge_ids=False, num_threads=self._threads)

    def _exchange_ids(self, exchanged: Round) -> None:
        # What is received of rows is what is asked for by ids: they go the other way.
        counts = torch.empty_like(self._ones)
        torch.distributed.all_to_all_single(counts, self._ones)
        asked = self._asked[: sum(exchanged.sent)]
        wanted = self._ids[: sum(exchanged.received)]
        torch.distributed.all_to_all_single(asked, wanted, exchanged.sent, exchanged.received)

    def _exchange_rows(self, exchanged: Round) -> None:
        rows = self._rows[: sum(exchanged.received)]
        to_send = self._to_send[: sum(exchanged.sent)]
        torch.distributed.all_to_all_single(rows, to_send, exchanged.received, exchanged.sent)


def delay_collectives(seconds: float) -> None:
    """Let every collective begin later: a stand-in for the latency of a network that cannot be simulated below."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)  # else the kernel adds 0.05 ms to every sleep

    def delayed(collective: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            time.sleep(seconds)
            return collective(*args, **options)

        return run

    for name in ("all_to_all_single", "all_reduce"):
        setattr(torch.distributed, name, delayed(getattr(torch.distributed, name)))


def link_rate(rounds: int = 3) -> float:
    """Return the bits a second that one rank sends to the others when nothing else does, both directions in use."""
    world_size = torch.distributed.get_world_size()
    if world_size == 1:
        return float("nan")
    count = PROBE_BYTES // world_size
    sent, received = (torch.zeros(count * world_size, dtype=torch.uint8) for _ in range(2))
    seconds = []
    for _ in range(rounds):
        torch.distributed.barrier()
        started = time.perf_counter()
        torch.distributed.all_to_all_single(received, sent)
        seconds.append(time.perf_counter() - started)
    return 8 * count * (world_size - 1) / min(seconds)


def timed_together(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Let all ranks begin at once; return what the work took, and its result.

    Seconds: all, and those of processors in all threads, in the kernel alone as well; and page faults, of which a large
    tensor causes one for every page that its memory was not there for.
    """
    torch.distributed.barrier()
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    result = work()
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    in_kernel = after.ru_stime - before.ru_stime
    on_cpu = after.ru_utime - before.ru_utime + in_kernel
    return {"all": seconds, "cpu": on_cpu, "kernel": in_kernel, "faults": after.ru_minflt - before.ru_minflt}, result


def consume(loader: hr.Loader) -> None:
    """Run an epoch."""
    loader.set_epoch(0)
    for _ in loader:
        pass


def stage_seconds(loader: hr.Loader, before: dict[str, float]) -> dict[str, float]:
    """Return the seconds of each kind of stage since `before`, which is brought up to date."""
    now: dict[str, float] = {}
    for name, totals in loader.stats().lowered.items():
        kind = name.split("#")[0]  # one of several of a kind has its number behind it
        now[kind] = now.get(kind, 0.0) + totals["seconds"]
    passed = {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}
    before.update(now)
    return passed


def profiled(loader: hr.Loader, most: int) -> list[tuple[str, float, int]]:
    """Return the functions with the most own time in an epoch: (name, seconds, calls)."""
    profile = cProfile.Profile()
    torch.distributed.barrier()
    profile.enable()
    consume(loader)
    profile.disable()
    found = []
    for (file, line, function), (_, calls, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        place = "/".join(file.split("/")[-2:])
        found.append((function if file == "~" else f"{place}:{line} {function}", own, calls))
    return sorted(found, key=lambda entry: -entry[1])[:most]


def main() -> None:
    settings = json.loads(sys.argv[1])
    rank, world_size, threads = settings["rank"], settings["world_size"], settings["threads"]
    torch.set_num_threads(threads)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{settings['meeting']}", rank=rank, world_size=world_size
    )
    rate = link_rate()
    if settings["latency"]:
        delay_collectives(settings["latency"])
    folder = Path(settings["folder"])
    graph = hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("indptr", "indices")))
    x = table(graph.num_nodes, settings["width"])
    ops.use_huge_pages(x)
    size = settings["batch_size"] * world_size
    train = np.load(folder / "train.npy") if (folder / "train.npy").exists() else np.arange(graph.num_nodes)
    seeds = seeds_of(0, train, size * settings["batches"])
    items = hr.ItemSampler(torch.from_numpy(seeds), batch_size=size, seed=SEED)
    plan: Any = items.sample_layer_neighbor(graph, FANOUTS, edge_ids=False)
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    # One batch after the other, on the thread that measures: what is overlapped cannot be told apart.
    independent = plan.loader(prefetch=False, num_threads=threads)
    cooperative = plan.loader(prefetch=False, num_threads=threads, cooperative=True)

    batches = []
    for batch in cooperative:
        identified(batch.x, batch.n_id)
        batches.append(recorded(batch))
    bare = Bare(graph, x, threads, batches)
    bare.epoch(check=True)
    # The memory of two kinds of batches is there from here on.
    for loader in (independent, cooperative, independent, cooperative):
        consume(loader)
    seen: dict[str, dict[str, float]] = {"independent": {}, "cooperative": {}}
    loaders = {"independent": independent, "cooperative": cooperative}
    for name, loader in loaders.items():
        stage_seconds(loader, seen[name])

    def load(name: str) -> dict[str, float]:
        seconds, _ = timed_together(lambda: consume(loaders[name]))
        return {**seconds, **stage_seconds(loaders[name], seen[name])}

    def replay() -> dict[str, float]:
        seconds, parts = timed_together(bare.epoch)
        return {**seconds, **parts}

    systems: dict[str, Callable[[], dict[str, float]]] = {
        "independent": lambda: load("independent"),
        "cooperative": lambda: load("cooperative"),
        "bare": replay,
    }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    order = list(systems)
    for number in range(settings["rounds"]):
        first = number % len(order)
        for name in [*order[first:], *order[:first]]:
            measured[name].append(systems[name]())
    stats = cooperative.stats()
    answer = {
        "measured": measured,
        "link rate": rate,
        "received bytes": sum(stage.get("sent_bytes", 0) for stage in stats.values())
        / stats["item_sampler"]["batches"],
        "independent rows": independent.stats()["fetch_feature"]["rows"]
        / independent.stats()["item_sampler"]["batches"],
        "profile": profiled(cooperative, settings["profile"]) if settings["profile"] else [],
    }
    torch.distributed.barrier()
    print(json.dumps(answer), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
