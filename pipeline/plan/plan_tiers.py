"""How many rows of features to put where, from how often they are asked for and what each place holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TypeGuard

import torch
from torch import Tensor

from headrace.ops import InputError, TierSizes
from headrace.ops.gpu import current_gpu
from headrace.ops.text import printable
from headrace.pipeline.data import (
    CPU,
    DISK,
    Graph,
    GraphView,
    Place,
    as_cpu_tensor,
    as_list,
    check_kind,
    check_switches,
    describe,
)
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore, as_source
from headrace.pipeline.storage.peers import check_is_distributed, least_of_ranks
from headrace.pipeline.storage.tiered_feature import TieredFeature

#: Bytes per second at which one process reads random rows, for comparing places: orders of magnitude of a machine with
#: GPUs on a switch of their own (NVLink), which `bandwidth=` replaces by measured ones.
BANDWIDTH: Mapping[str, float] = {"cuda": 1e12, "peer": 1e11, "pinned": 2e10, "cpu": 5e9, "disk": 1e9}

#: How much of a memory rows may take: models, batches and buffers need the rest.
SHARE = 0.5

#: Numbers of replicated rows that are compared: from none to as many as a device holds, in so many steps.
_STEPS = 64


@dataclass(frozen=True)
class Tier:
    """One line of the table of a `TierPlan`.

    Parameters
    ----------
    place
        Where.
    rows
        Distinct rows there.
    bytes_per_device
        The bytes of the rows on one device, or at the place.
    hits
        The share of all reads that is expected there, if reads are as the scores.
    why
        The reason for this number.
    """

    place: str
    rows: int
    bytes_per_device: int
    hits: float
    why: str


@dataclass(frozen=True, eq=False)
class TierPlan:
    """The places of the rows of node features, from `hr.plan_tiers`. It prints as a table.

    Parameters
    ----------
    names
        The features; rows of one node have the same place.
    sizes
        The number of rows at each place.
    rank: int32[num_nodes]
        The rank of each node: 0 for the hottest.
    devices
        The devices; with `peers`, that of this rank alone.
    tiers
        The table.
    peers
        Whether each rank of torch.distributed on this machine has one of the devices.
    """

    names: tuple[str, ...]
    sizes: TierSizes
    rank: Tensor
    devices: tuple[Place, ...]
    tiers: tuple[Tier, ...]
    peers: bool = False

    def apply(self, store: FeatureStore, *, here: int = 0, stand_ins: bool = False) -> FeatureStore:
        """Return a store in which the features of the plan are `hr.TieredFeature`, and all others unchanged.

        If no row has a faster place, it is the store itself.

        `here` is the device that reads; `stand_ins` uses CPU memory in place of devices. With `peers` all ranks call
        this together, and leave `here` out.
        """
        if self.sizes.num_placed == 0:
            return store
        tiered = {
            name: TieredFeature(
                store.node[name],
                self.rank,
                self.sizes,
                devices=self.devices,
                here=here,
                stand_ins=stand_ins,
                peers=self.peers,
            )
            for name in self.names
        }
        return FeatureStore(node={**store.node, **tiered}, edge=store.edge)

    def __str__(self) -> str:
        header = ("place", "rows", "bytes", "expected hits", "why")
        lines = [
            (tier.place, f"{tier.rows:,}", f"{tier.bytes_per_device:,}", f"{tier.hits:.1%}", tier.why)
            for tier in self.tiers
        ]
        widths = [max(len(line[i]) for line in (header, *lines)) for i in range(4)]
        text = "\n".join(
            "  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in (1, 2, 3)), line[4]]).rstrip()
            for line in (header, *lines)
        )
        return printable(text)


def plan_tiers(
    store: FeatureStore,
    graph: Graph,
    machine: Machine | None = None,
    scores: Tensor | None = None,
    *,
    node: Sequence[str] | None = None,
    share: float = SHARE,
    bandwidth: Mapping[str, float] | None = None,
    peers: bool = False,
) -> TierPlan:
    """Choose the number of rows of node features on devices, in host memory and on disk.

    Data Tiering (arXiv 2111.05894): devices get the hottest rows. Some of these are copied to each device, so that no
    link is crossed. The next ones are distributed over the devices, so that more different rows fit. The numbers of
    both minimise the expected time of a read. Rows on disk are copied to host memory as far as there is room; rows in
    host memory stay.

    >>> import torch
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 0, 0, 1, 2], [1, 2, 3, 0, 0], num_nodes=4)
    >>> store = hr.FeatureStore(node={"x": torch.randn(4, 8)})
    >>> machine = hr.Machine(gpus=2, gpu_memory=(128, 128), memory=1 << 20)
    >>> print(hr.plan_tiers(store, graph, machine, torch.tensor([3.0, 1.0, 1.0, 0.0])))
    place        rows  bytes  expected hits  why
    each of 2       1     32          60.0%  the hottest: no link is crossed
    spread of 2     2     32          40.0%  the next: 1 fit on each beside those
    cpu             1     32           0.0%  where they are

    Parameters
    ----------
    store, graph
        The features and the graph that they belong to.
    machine
        The machine, with its free memory; by default that of this process, with all GPUs that it sees. Every process
        fills its own tiers: if several processes share GPUs, pass a machine with the share of one.
    scores: float[num_nodes], optional
        The frequency with which the row of each node is read, in any unit, for example from `hr.scores`. By default the
        out-degree.
    node
        Names of the features to place, which must now be in one place; the rows of a node stay together. By default all
        features with a row for each node in the slowest place: if some are on disk, only these.
    share
        The largest share of each memory for rows: more than 0, and at most 1.
    bandwidth
        Bytes per second of random rows by kind of place ("cuda", "peer", "pinned", "cpu", "disk"), if known.
    peers
        Whether the devices are the current GPUs of the ranks of torch.distributed on this machine, one for each rank,
        which read each other's memory in place. All ranks call `plan_tiers` together, and get the same numbers: those
        of the rank with the least memory.

    Returns
    -------
    TierPlan
        It prints as a table; ``apply(store)`` executes it.

    Raises
    ------
    InputError
        For a share or bandwidth out of range, if there is no such feature, if the named features are in different
        places, if scores are not one number of at least 0 per node, or with `peers` without torch.distributed.
    PeerError
        With `peers`, if a rank does not come.
    """
    check_switches("plan_tiers", InputError, peers=peers)
    check_kind(store, FeatureStore, "plan_tiers: expected an hr.FeatureStore", "pass the store first", InputError)
    advice = "make one by hr.Graph.from_coo, from_pyg or from_dgl"
    check_kind(graph, GraphView, "plan_tiers: expected an hr.Graph", advice, InputError)
    if machine is None:
        machine = replace(Machine.detect(), current_gpu=current_gpu()) if peers else Machine.detect()
    advice = "leave it out, or pass hr.Machine(gpus=..., gpu_memory=...)"
    check_kind(machine, Machine, "plan_tiers: expected machine to be an hr.Machine", advice, InputError)
    advice = f"pass {{{', '.join(f'{kind!r}: 1e10' for kind in [*BANDWIDTH][:1])}}}, bytes per second"
    expected = "plan_tiers: expected bandwidth to be a dictionary"
    check_kind({} if bandwidth is None else bandwidth, Mapping, expected, advice, InputError)
    _check_numbers(share, bandwidth or {})
    names = _names(store, graph, node)
    sources = [store.node[name] for name in names]
    source = _place_of(sources, names)
    hits = _hits(scores, graph)
    ranking = torch.argsort(hits, descending=True, stable=True)
    rank = torch.empty(len(ranking), dtype=torch.int32 if len(ranking) < 1 << 31 else torch.int64, device="cpu")
    rank[ranking] = torch.arange(len(ranking), dtype=rank.dtype, device="cpu")
    below = torch.cat([hits.new_zeros(1), hits[ranking].cumsum(0)])  # hits of the i hottest rows
    row_bytes = max(sum(one.row_bytes for one in sources), 1)

    num_devices = min(machine.gpus, len(machine.gpu_memory))
    per_device, memory = min(machine.gpu_memory[:num_devices], default=0), machine.memory
    devices = tuple(Place("cuda", number) for number in range(num_devices))
    if peers:
        check_is_distributed("plan_tiers")
        (per_device, memory), num_devices = least_of_ranks(machine.memory_of_gpu(None), memory)
        num_devices = num_devices if per_device else 0
        devices = (Place("cuda", machine.current_gpu),)[:num_devices]
    per_device = int(per_device * share) // row_bytes
    speeds = {**BANDWIDTH, **(bandwidth or {})}
    sizes = _on_devices(below, per_device, num_devices, speeds, source)
    if source == DISK:
        room = int(memory * share) // row_bytes
        sizes = replace(sizes, host=min(room, len(ranking) - sizes.num_placed))
    tiers = _table(sizes, devices, below, row_bytes, source)
    return TierPlan(names, sizes, rank, devices, tiers, peers and num_devices > 0)


def _check_numbers(share: object, bandwidth: Mapping[str, object]) -> None:
    if not (_is_real(share) and 0 < share <= 1):
        raise InputError(
            f"plan_tiers: expected share to be a number above 0 and at most 1, got {share!r}; pass which part of each "
            f"memory rows may take, such as {SHARE}"
        )
    for kind, speed in bandwidth.items():
        if kind not in BANDWIDTH or not (_is_real(speed) and 0 < speed < math.inf):
            raise InputError(
                f"plan_tiers: expected bandwidth to be bytes per second, above 0, by kind of place, one of "
                f"{', '.join(BANDWIDTH)}, got {kind!r}: {speed!r}; leave out what is not known, or does not count"
            )


def _is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _names(store: FeatureStore, graph: Graph, node: Sequence[str] | None) -> tuple[str, ...]:
    if node is not None:
        node = as_list(node, "plan_tiers: node", "names of node features", InputError)
        store.check(node=node, num_nodes=graph.num_nodes, stage="plan_tiers")
        names = tuple(node)
    else:
        plain = store.node.without_types("plan_tiers")
        names = _slowest({name: one for name, one in plain.items() if one.num_rows == graph.num_nodes})
    if not names:
        raise InputError(
            f"plan_tiers: expected features with a row for each of {graph.num_nodes} nodes, got {store}; name some"
        )
    return names


def _slowest(sources: Mapping[str, FeatureSource]) -> tuple[str, ...]:
    """Return the names of the features that lie where reading is slowest."""
    places = {name: as_source(source).place for name, source in sources.items()}
    slowest = min(places.values(), key=lambda place: BANDWIDTH.get(place.kind, 0.0), default=CPU)
    return tuple(name for name, place in places.items() if place == slowest)


def _place_of(sources: Sequence[FeatureSource], names: Sequence[str]) -> Place:
    """Return where all the features lie."""
    places = {name: as_source(source).place for name, source in zip(names, sources, strict=True)}
    if len(set(places.values())) > 1:
        raise InputError(
            "plan_tiers: expected features that lie in one place, got "
            f"{', '.join(f'{name!r} on {place}' for name, place in places.items())}; plan those of each place by "
            "themselves, node=[...]"
        )
    return places[names[0]]


def _hits(scores: Tensor | None, graph: Graph) -> Tensor:
    """Return the share of reads that is expected of each node, float64[num_nodes]."""
    if scores is None:
        out_degrees = torch.bincount(graph.indices, minlength=graph.num_nodes)
        hits = graph.by_original_ids(out_degrees).to(torch.float64)  # features are by these, too
    else:
        hits = as_cpu_tensor(scores, "scores")
        came = describe(hits)
        if hits.shape == (graph.num_nodes,) and not hits.is_complex():
            hits = hits.to(torch.float64)
            bad = (~hits.isfinite() | (hits < 0)).nonzero().flatten()
            came = f"{float(hits[bad[0]])} of node {int(bad[0])}" if len(bad) else ""
        if came:
            raise InputError(
                f"plan_tiers: expected scores to be a number of at least 0 for each of {graph.num_nodes} nodes, how "
                f"often it is read, got {came}; pass counts, or hr.scores"
            )
    total = float(hits.sum())
    return hits / total if total > 0 else torch.full_like(hits, 1 / max(len(hits), 1))


def _on_devices(
    below: Tensor, per_device: int, num_devices: int, speeds: Mapping[str, float], source: Place
) -> TierSizes:
    """Return how many rows are replicated and how many dealt out, by which a read is expected to take least time."""
    num_rows = len(below) - 1
    if num_devices == 0 or per_device == 0:
        return TierSizes(num_devices=num_devices)
    cold = speeds["disk" if source == DISK else "pinned"]
    best, least = TierSizes(), float("inf")
    # At the only device all are its own.
    for step in range(_STEPS + 1) if num_devices > 1 else (_STEPS,):
        replicated = min(per_device * step // _STEPS, num_rows)
        interleaved = min((per_device - replicated) * num_devices, num_rows - replicated)
        hottest, placed = float(below[replicated]), float(below[replicated + interleaved])
        own = hottest + (placed - hottest) / num_devices
        time = own / speeds["cuda"] + (placed - own) / speeds["peer"] + (1 - placed) / cold
        if time < least:
            best, least = TierSizes(replicated, interleaved, num_devices=num_devices), time
    return best


def _table(
    sizes: TierSizes, devices: Sequence[Place], below: Tensor, row_bytes: int, source: Place
) -> tuple[Tier, ...]:
    """Return a line for each place that has rows."""
    num_rows, lines, first = len(below) - 1, list[Tier](), 0
    count, replicated, stay = sizes.num_devices, sizes.replicated, len(below) - 1 - sizes.num_placed
    most, room = (sizes.interleaved_at(0) if count else 0), "as far as there is room"
    each = (f"each of {count}", "the hottest: no link is crossed", "all: no link is crossed")
    if count == 1:
        each = (str(devices[0]), f"the hottest: {room}", "all: there is room")
    beside = f"the next: {most:,} fit on each beside those" if replicated else f"the hottest: {most:,} fit on each"
    next_ones = f"the next: {room}" if replicated or sizes.interleaved else f"the hottest: {room}"
    # Of each place why some of the rows are there, and why all of them.
    for (place, some, every), rows, on_one in (
        (each, replicated, replicated),
        ((f"spread of {count}", beside, f"all: {most:,} fit on each"), sizes.interleaved, most),
        (("pinned" if count else "cpu", next_ones, "all: there is room"), sizes.host, sizes.host),
        ((str(source), "where they are", "where they are: no faster place has room"), stay, stay),
    ):
        if rows:
            hits = float(below[first + rows] - below[first])
            lines.append(Tier(place, rows, on_one * row_bytes, hits, every if rows == num_rows else some))
        first += rows
    return tuple(lines)
