"""How much memory there is, and sizes that it cannot hold, refused before any work is done."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headrace.ops.errors import InputError

_STATUS = Path("/proc/self/status")
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def memory_bytes() -> int | None:
    """Return how much memory the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no sysconf, or none of these names
        return None


def free_memory_bytes() -> int | None:
    """Return how much more memory this process may take: what is free, or less in a container or under a limit.

    None where the system does not say.
    """
    held, addresses = _field(_STATUS, "RssAnon") or 0, _field(_STATUS, "VmSize") or 0
    limits = [limit - held for limit in _control_group_limits()]
    if (limit := _address_space_limit()) is not None:
        limits.append(limit - addresses)
    available = _field(Path("/proc/meminfo"), "MemAvailable") or memory_bytes()
    least = min((room for room in (available, *limits) if room is not None), default=None)
    return None if least is None else max(least, 0)


def _field(path: Path, name: str) -> int | None:
    """Return bytes that a file of the system gives in kB; None where it does not."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _control_group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Return the limits of the groups of this process and of those that hold them, of both versions of Linux's groups.

    A container sees its own group as the root.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top, name = (root, "memory.max") if controllers == "" else (root / "memory", "memory.limit_in_bytes")
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # no such group here, or it says "max"
                limits.append(int((folder / name).read_text()))
            if folder == top:
                break
    return limits


def _address_space_limit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def check_fits_memory(num_bytes: int, what: str, advice: str, error: type[InputError] = InputError) -> None:
    """Refuse what takes more than all of the machine's memory.

    What takes less may still not fit beside other things: this catches slips, it does not plan.

    Parameters
    ----------
    num_bytes : int
        What is needed at least.
    what, advice : str
        Who asks for what, and what to do, for the message.
    error : type
        Class of the error.

    Raises
    ------
    InputError
        (or `error`) with what was asked for and the limit.
    """
    limit = memory_bytes()
    if limit is not None and num_bytes > limit:
        message = (
            f"{what}, which takes at least {_readable(num_bytes)}; expected at most the memory of this machine, "
            f"{_readable(limit)}; {advice}"
        )
        raise error(message)


def _readable(num_bytes: int) -> str:
    power = min(max(len(str(num_bytes)) - 1, 0) // 3, len(_UNITS) - 1)
    return f"{num_bytes / 1000**power:,.1f} {_UNITS[power]}"
