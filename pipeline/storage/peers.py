"""The ranks of one machine, each of which keeps rows on its own device and reads those of the others in place."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import HeadraceError, InputError, PeerError, TierSizes
from headrace.ops.features.shared_rows import SharedRows, opened_rows
from headrace.ops.gpu import current_gpu, gpu_name, is_readable
from headrace.pipeline.data import Place, as_cpu_tensor, exact_digest
from headrace.pipeline.distributed.comm import texts_of_job
from headrace.pipeline.distributed.job import is_distributed, rank_of_process
from headrace.pipeline.storage.feature_source import FeatureSource

T = TypeVar("T")


class Peers:
    """The ranks of torch.distributed on this machine. All ranks make it together, with the same content.

    Parameters
    ----------
    device
        The device of this rank.
    content
        What must be the same on all ranks, by name; values of JSON.
    num_devices
        The number of ranks on each machine.

    Attributes
    ----------
    devices : tuple of Place
        The device of each rank here, in the order of the ranks.
    here : int
        The position of this rank among them.

    Raises
    ------
    InputError
        On all ranks: without torch.distributed, if the content differs, or a machine has another number of ranks.
    PeerError
        If a rank does not come.
    """

    def __init__(self, device: Place, content: dict[str, Any], num_devices: int) -> None:
        self._watched: dict[int, int] = {}  # ranks, by the files that tell that their processes have ended
        rank, _ = rank_of_process(None, None)
        mine = {"machine": _machine(), "pid": os.getpid(), "device": str(device), "content": content}
        mine["gpu"] = gpu_name(str(device))
        told = _told(mine)
        for name in content:
            values = [one["content"].get(name) for one in told]
            other = next((r for r, value in enumerate(values) if value != values[0]), None)
            if other is not None:
                raise InputError(
                    f"TieredFeature: expected the same {name} on all ranks, got {values[0]} on rank 0 and "
                    f"{values[other]} on rank {other}; make it of the same rows, ranks and sizes on all ranks"
                )
        machines = [one["machine"] for one in told]
        for machine in dict.fromkeys(machines):
            there = [str(r) for r, one in enumerate(machines) if one == machine]
            if len(there) != num_devices:
                raise InputError(
                    f"TieredFeature: expected {num_devices} ranks on each machine, one for each device of the sizes, "
                    f"got {len(there)}, rank{'s' * (len(there) > 1)} {', '.join(there)}; pass "
                    f"sizes with num_devices={len(there)}, or start as many processes on each machine"
                )
        self.ranks = [r for r, machine in enumerate(machines) if machine == machines[rank]]
        self.here = self.ranks.index(rank)
        self.devices = tuple(Place.parse(told[r]["device"]) for r in self.ranks)
        self._gpus = [told[r]["gpu"] for r in self.ranks]
        self._pids = {r: told[r]["pid"] for r in self.ranks if r != rank}
        self._looking = threading.Lock()
        self._ends = select.poll()
        for r, pid in self._pids.items():
            with suppress(OSError, AttributeError):  # an old system; then nobody tells
                file = os.pidfd_open(pid)
                weakref.finalize(self, os.close, file)
                self._watched[file] = r
                self._ends.register(file, select.POLLIN)

    def share(
        self, make: Callable[[], Tensor], shapes: Sequence[tuple[int, ...]], device: torch.device
    ) -> list[Tensor]:
        """Keep rows on the device of this rank, and return those of all ranks here, each where it is.

        Parameters
        ----------
        make
            Returns the rows of this rank, in CPU memory.
        shapes
            The shape of the rows of each rank.
        device
            The device of this rank.

        Raises
        ------
        HeadraceError
            If memory cannot be shared, or that of another rank cannot be opened.
        PeerError
            If another rank fails.
        """

        def keep() -> SharedRows:
            self._check_numbers()
            return SharedRows(make(), device)

        own, handles = _together(keep, lambda shared: shared.handle)

        def open_others() -> list[Tensor]:
            there = zip(self.ranks, shapes, strict=True)
            tables = [
                own.rows if number == self.here else opened_rows(handles[rank], shape, own.rows.dtype, device)
                for number, (rank, shape) in enumerate(there)
            ]
            for rank, table in zip(self.ranks, tables, strict=True):
                if not reaches(device, table):
                    raise HeadraceError(
                        f"TieredFeature: expected {device} to read memory of {table.device} in place, that of rank "
                        f"{rank}, got no access; leave peers out, or place rows in host memory alone"
                    )
            return tables

        tables, _ = _together(open_others, lambda _: "")
        own.close()
        return tables

    def _check_numbers(self) -> None:
        """Refuse GPUs that have other numbers here than in the process of their rank."""
        for rank, place, name in zip(self.ranks, self.devices, self._gpus, strict=True):
            if gpu_name(str(place)) != name:
                raise InputError(
                    f"TieredFeature: expected {place} to be the same GPU in all processes, got another one here than "
                    f"on rank {rank}; start all ranks with the same CUDA_VISIBLE_DEVICES, and let each take the GPU of "
                    "its LOCAL_RANK"
                )

    def check(self) -> None:
        """See whether all ranks here are still there.

        Raises
        ------
        PeerError
            If some have ended; it names all of them, as one that ends may end others.
        """
        if not self._watched or not self._looking.acquire(blocking=False):
            return  # another thread looks
        try:
            ended = [self._watched[file] for file, _ in self._ends.poll(0)]
        finally:
            self._looking.release()
        if ended:
            named = " and ".join(f"rank {rank} (process {self._pids[rank]})" for rank in sorted(ended))
            raise PeerError(
                f"TieredFeature: {named} ended, and so did the memory of devices whose rows this rank reads in place; "
                "let no rank end before the others have read their last batch: call close() of the feature on all "
                "ranks, or torch.distributed.barrier()"
            )

    def part(self) -> None:
        """Wait until no rank reads rows of another one any more; all ranks call it.

        Raises
        ------
        PeerError
            If a rank does not come.
        """
        _told({})


def check_is_distributed(stage: str) -> None:
    """Refuse peers where there is no job.

    Raises
    ------
    InputError
        Without torch.distributed.
    """
    if not is_distributed():
        raise InputError(
            f"{stage}: expected torch.distributed to be initialised for peers=True, got none; call "
            "torch.distributed.init_process_group first (torchrun sets what it needs), or leave peers out"
        )


def own_device(devices: Sequence[Place], here: int) -> Place:
    """Return the device of this rank: the one given, or the current GPU.

    Raises
    ------
    InputError
        If those of other ranks are given, too, or without torch.distributed.
    """
    if here or len(devices) > 1:
        raise InputError(
            f"TieredFeature: expected the device of this rank alone with peers=True, got {len(devices)} devices and "
            f"here={here}; leave here out, and pass devices=[hr.Place('cuda', local_rank)]"
        )
    check_is_distributed("TieredFeature")
    device = devices[0] if devices else Place("cuda")
    return Place(device.kind, current_gpu()) if device == Place("cuda") else device


def content_of(source: FeatureSource, rank: ArrayLike | Tensor, sizes: TierSizes) -> dict[str, Any]:
    """Return what must be the same on all ranks, by name."""
    return {
        "sizes": [sizes.replicated, sizes.interleaved, sizes.host, sizes.num_devices],
        "shape": list(source.shape),
        "dtype": str(source.dtype),
        "rows": source.content_digest(),
        "rank": exact_digest([("rank", as_cpu_tensor(rank, "rank").long())]),
    }


def reaches(device: torch.device, table: Tensor) -> bool:
    """Whether a device reads a table in place; stand-ins in CPU memory do."""
    return device.type == "cpu" or is_readable(table, device)


def least_of_ranks(*numbers: int) -> tuple[list[int], int]:
    """Return the least of each number over all ranks, and the number of ranks on each machine.

    Raises
    ------
    InputError
        On all ranks, if machines have different numbers of ranks.
    PeerError
        If a rank does not come.
    """
    told = _told({"machine": _machine(), "numbers": numbers})
    counts = Counter(one["machine"] for one in told)
    if len({*counts.values()}) > 1:
        raise InputError(
            f"plan_tiers: expected as many ranks on each machine with peers=True, got {sorted(counts.values())}; start "
            "as many processes on each, or leave peers out"
        )
    return [min(of_all) for of_all in zip(*(one["numbers"] for one in told), strict=True)], counts[_machine()]


def _together(work: Callable[[], T], described: Callable[[T], str]) -> tuple[T, list[str]]:
    """Work on all ranks; return what was made here, and how each rank describes its own.

    Raises
    ------
    PeerError
        If another rank fails; it names the rank.
    """
    try:
        made = work()
    except Exception as error:
        _told({"failed": f"{type(error).__name__}: {error}"})
        raise
    told = _told({"made": described(made)})
    for rank, one in enumerate(told):
        if "failed" in one:
            raise PeerError(
                f"TieredFeature: rank {rank} could not share its rows, or open those of others:\n{one['failed']}"
            )
    return made, [one["made"] for one in told]


def _told(what: dict[str, Any]) -> list[dict[str, Any]]:
    """Tell all ranks, and return what each told."""
    return [json.loads(text) for text in texts_of_job(json.dumps(what), made="tiered feature")]


def _machine() -> str:
    """Return a name of this machine, or of the container in which processes see each other."""
    with suppress(OSError):
        booted = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{booted} {Path('/proc/self/ns/pid').readlink()}"
    return socket.gethostname()
