"""Hardware counters of this process over a piece of code, by `perf stat`, where machine and kernel give them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable

EVENTS = ("cache-misses", "dTLB-load-misses", "page-faults")


def parsed(report: str) -> dict[str, float]:
    """Return the events that were counted, from the output of ``perf stat -x,``; others are left out."""
    counted = {}
    for line in report.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[0].replace(".", "", 1).isdigit():
            counted[fields[2].split(":")[0]] = float(fields[0])
    return counted


def counting(work: Callable[[], object]) -> dict[str, float]:
    """Run `work` and return the counts of `EVENTS` during it; virtual machines often give only some, or none."""
    if shutil.which("perf") is None:
        work()
        return {}
    # --control would say when perf is ready; older ones lack it, and a first count that starts late is only too small.
    command = ["perf", "stat", "-x,", "-e", ",".join(EVENTS), "-p", str(os.getpid())]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
        try:
            work()
        finally:
            perf.send_signal(signal.SIGINT)
        _, report = perf.communicate()
    return parsed(report)
