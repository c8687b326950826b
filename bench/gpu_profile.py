"""How busy a GPU is, how many kernels it is given, and what giving them costs: by torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from gpu_device import Gpu
from torch.autograd import DeviceType

#: What the host calls to launch a kernel, in CUDA's runtime and in its driver.
LAUNCH = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "cudaGraphLaunch")


@dataclass(frozen=True)
class Profile:
    """What was seen of a GPU, over some batches; all times in seconds.

    Parameters
    ----------
    wall
        From the first call to the end of all that was launched.
    busy
        How long it did anything, kernels or copies, on any stream.
    kernels
        Kernels that ran.
    launching
        How long the host was in calls that launch them.
    """

    wall: float
    busy: float
    kernels: int
    launching: float


def profiled(gpu: Gpu, run: Callable[[], Any]) -> Profile:
    """Call a function under the profiler; without a GPU, count what its stand-in was given."""
    before = len(gpu.launches)
    if (
        not gpu.is_real or "HEADRACE_NO_PROFILER" in os.environ
    ):  # the profiler and compute-sanitizer need the same interface
        wall = gpu.wall_seconds(run)
        return Profile(wall, wall, len(gpu.launches) - before, 0.0)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        wall = gpu.wall_seconds(run)
    return of_events(profiler.events() or [], wall)


def of_events(events: Iterable[Any], wall: float) -> Profile:
    """Sum up the profiler's events, whose times are in microseconds."""
    on_gpu, kernels, launching = list[tuple[float, float]](), 0, 0.0
    for event in events:
        start, end = event.time_range.start, event.time_range.end
        if event.device_type == DeviceType.CUDA:
            if getattr(event, "is_user_annotation", False):  # a range of the host, which is shown on the device as well
                continue
            on_gpu.append((start, end))
            kernels += not event.name.startswith(("Memcpy", "Memset"))
        elif event.name.startswith(LAUNCH):
            launching += end - start
    busy, until = 0.0, float("-inf")
    for start, end in sorted(on_gpu):  # those of several streams overlap
        busy += max(end - max(start, until), 0.0)
        until = max(until, end)
    return Profile(wall, busy / 1e6, kernels, launching / 1e6)
