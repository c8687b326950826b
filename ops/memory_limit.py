"""How much memory there is, and sizes that it cannot hold, refused before any work is done."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headrace.ops.errors import InputError

_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
#: Limits are read from files of the system, which takes 0.2 ms: what takes less is compared with all memory alone.
_LEAST_LOOKED_AT = 1 << 24
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def memory_bytes() -> int | None:
    """Return how much memory the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no sysconf, or none of these names
        return None


def most_memory_bytes() -> int | None:
    """Return how much memory this process can have at most; None where the system does not say.

    That is all of the machine's, or of its container's, or what limits of the process leave it, whatever is less.
    """
    # The first version of groups has 2**63, in whole pages, for no limit.
    groups = [limit for limit, _ in _control_groups(0) if limit < 1 << 62]
    return min((room for room in (memory_bytes(), own_room(), *groups) if room is not None), default=None)


def free_memory_bytes() -> int | None:
    """Return how much more memory this process may take: what is free, or less in a container or under a limit.

    None where the system does not say.
    """
    return min((room for room in (shared_room(), own_room()) if room is not None), default=None)


def shared_room() -> int | None:
    """Return what the processes of this machine, or of this container, may yet take together.

    Pages of files count as free where the system can drop them. None where the system does not say.
    """
    rooms = _control_group_rooms(_field(_STATUS, "RssAnon") or 0)
    rooms += [room for room in (_field(_MEMINFO, "MemAvailable") or memory_bytes(), _commit_room()) if room is not None]
    return max(min(rooms), 0) if rooms else None


def own_room() -> int | None:
    """Return what limits of this process alone (``ulimit -v`` and ``-d``) leave it; None where there are none.

    They count addresses: memory that is allocated, touched or not.
    """
    rooms = [limit - (_field(_STATUS, taken) or 0) for limit, taken in _process_limits()]
    return max(min(rooms), 0) if rooms else None


def _field(path: Path, name: str) -> int | None:
    """Return bytes that a file of the system gives in kB; None where it does not."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _commit_room() -> int | None:
    """Return what can yet be allocated where the system promises no more than it has; None where it does."""
    with suppress(OSError):
        if _OVERCOMMIT.read_text().strip() == "2":
            limit, taken = _field(_MEMINFO, "CommitLimit"), _field(_MEMINFO, "Committed_AS")
            return None if limit is None or taken is None else limit - taken
    return None


def _control_groups(
    held: int, root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> list[tuple[int, int]]:
    """Return limits of the groups of this process, and of those that hold them, and what is taken of each.

    A container sees its own group as the root. Where a group does not say what its processes take, that is `held`.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return []
    found_groups = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        second = controllers == ""
        top = root if second else root / "memory"
        limits, usage = (("memory.max", "memory.high"), "memory.current") if second else _FIRST_VERSION
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            limit = min((found for name in limits if (found := _number(folder / name)) is not None), default=None)
            if limit is not None:
                taken = _number(folder / usage)
                held_here = held if taken is None else taken - _droppable(folder / "memory.stat")
                found_groups.append((limit, held_here))
            if folder == top:
                break
    return found_groups


def _control_group_rooms(held: int, *folders: Path) -> list[int]:
    """Return what is left in each of the groups."""
    return [limit - taken for limit, taken in _control_groups(held, *folders)]


_FIRST_VERSION = (("memory.limit_in_bytes",), "memory.usage_in_bytes")


def _number(path: Path) -> int | None:
    """Return the number in a file; None where there is none, or it says "max"."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _droppable(path: Path) -> int:
    """Return the bytes of pages of files in a group, which make room for others when there is need."""
    fields = {}
    with suppress(OSError, ValueError):
        fields = {name: int(value) for name, value in map(str.split, path.read_text().splitlines())}
    # In the first version "total_" counts the groups below, too, as all of the second does.
    return sum(fields.get(f"total_{name}", fields.get(name, 0)) for name in ("inactive_file", "active_file"))


def _process_limits() -> list[tuple[int, str]]:
    """Return the limits of this process, and under which name the system counts what is taken of each."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    kinds = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
    limits = [(resource.getrlimit(kind)[0], taken) for kind, taken in kinds]
    return [(limit, taken) for limit, taken in limits if limit != resource.RLIM_INFINITY]


def check_fits_memory(num_bytes: int, what: str, advice: str) -> None:
    """Refuse what takes more than all memory that this process can have.

    What takes less may still not fit beside other things: this catches slips, it does not plan.

    Parameters
    ----------
    num_bytes : int
        What is needed at least.
    what, advice : str
        Who asks for what, and what to do, for the message.

    Raises
    ------
    InputError
        with what was asked for and the limit.
    """
    limit = most_memory_bytes() if num_bytes >= _LEAST_LOOKED_AT else memory_bytes()
    if limit is not None and num_bytes > limit:
        message = (
            f"{what}, which takes at least {_readable(num_bytes)}; expected at most the memory of this machine, or "
            f"what limits leave this process, {_readable(limit)}; {advice}"
        )
        raise InputError(message)


def _readable(num_bytes: int) -> str:
    power = min(max(len(str(num_bytes)) - 1, 0) // 3, len(_UNITS) - 1)
    return f"{num_bytes / 1000**power:,.1f} {_UNITS[power]}"
