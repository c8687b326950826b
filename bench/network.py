"""Networks that are not there: ranks in network namespaces, joined by a pair of virtual interfaces of a given rate.

Nothing outside the namespaces is touched, and nothing is left when they end. The rate is that of tbf; latency is that
of netem where the kernel has it, and otherwise has to be added by the ranks themselves (`Link.adds_latency`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "link"
TOOLS = ("ip", "tc", "unshare", "nsenter")
PATIENCE = 10.0


@dataclass(frozen=True)
class Link:
    """Two namespaces and what joins them.

    Parameters
    ----------
    processes
        A process in each namespace, which keeps it.
    adds_latency
        Whether the interfaces delay packets.
    """

    processes: tuple[int, int]
    adds_latency: bool

    def prefix(self, rank: int) -> list[str]:
        """Return the words that run a command in the namespace of a rank."""
        return ["nsenter", f"--net=/proc/{self.processes[rank]}/ns/net"]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that let gloo use the link."""
        return {"GLOO_SOCKET_IFNAME": INTERFACE}


def why_not() -> str | None:
    """Return what keeps this machine from having such links, or None."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found (Debian: iproute2, util-linux)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with link(1e9, 0.0):
            return None
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return f"no network namespaces here: {said.strip()}"


@contextmanager
def link(bits_per_second: float, latency: float) -> Iterator[Link]:
    """Join two new namespaces; each end sends at most at this rate, with `latency` seconds on the way."""
    keepers = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
    try:
        for keeper in keepers:
            _wait_for_namespace(keeper)
        first, second = (keeper.pid for keeper in keepers)
        made = Link((first, second), adds_latency=False)
        _run(made, 0, "ip", "link", "add", "name", INTERFACE, "type", "veth",
             "peer", "name", INTERFACE, "netns", str(second))  # fmt: skip
        delays = latency > 0
        for rank in range(2):
            _run(made, rank, "ip", "address", "add", f"10.77.0.{rank + 1}/24", "dev", INTERFACE)
            for interface in ("lo", INTERFACE):
                _run(made, rank, "ip", "link", "set", "dev", interface, "up")
            parent = ["root"]
            # A millisecond's worth of bytes at once, and more than the 64 KiB that one segment may have.
            burst = str(max(1 << 18, round(bits_per_second / 8 * 1e-3)))
            _run(made, rank, "tc", "qdisc", "add", "dev", INTERFACE, *parent, "handle", "1:", "tbf",
                 "rate", f"{round(bits_per_second)}bit", "burst", burst, "latency", "50ms")  # fmt: skip
            if delays:
                try:
                    _run(made, rank, "tc", "qdisc", "add", "dev", INTERFACE, "parent", "1:", "netem",
                         "delay", f"{round(latency * 1e6)}us", "limit", "100000")  # fmt: skip
                except subprocess.CalledProcessError:
                    delays = False
        yield Link(made.processes, adds_latency=delays)
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.wait()


def _run(made: Link, rank: int, *command: str) -> None:
    subprocess.run([*made.prefix(rank), *command], check=True, capture_output=True, text=True)


def _wait_for_namespace(keeper: subprocess.Popen[bytes]) -> None:
    own = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and keeper.poll() is None:
        with suppress(OSError):
            if Path(f"/proc/{keeper.pid}/ns/net").readlink() != own:
                return
        time.sleep(0.01)
    raise RuntimeError("unshare made no network namespace")
