"""A plugin of pytest for runs on a GPU: a module whose tests pass without a kernel on the device fails the run.

Such a module has tested the CPU: its arguments stayed there, or what it looks at fell back to torch. Kernels are
counted where a GPU is given them, and where there is none at what stands in for it. Give it to pytest as
`-p gpu.launches`, with `tests` on PYTHONPATH.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
import torch
from idle_modules import IdleModules


class Launches(IdleModules):
    """Counts kernels in the process that runs tests, and judges modules in the one that collects reports."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def counting(self, launch: Any) -> Any:
        """Return a method that launches kernels and counts them."""

        def counted(backend: Any, *arguments: Any) -> Any:
            self._count += 1
            return launch(backend, *arguments)

        return counted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        """Let each report, which may go to another process, have the launches since the last one."""
        report = yield
        report.launches, self._count = self._count, 0
        return report

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what each module has launched, and those first that are to blame."""
        terminalreporter.section("kernels on the device")
        super().pytest_terminal_summary(terminalreporter)
        for module, count in sorted(self._launched.items()):
            terminalreporter.line(f"{count:>8,} {module}")


def pytest_configure(config: Any) -> None:
    """Count what is launched from now on; let an interrupt, the time limit, end a run begun in the background too."""
    launches = Launches()
    config.pluginmanager.register(launches)
    backend = _backend()
    backend.launch = launches.counting(backend.launch)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _backend() -> Any:
    """Return the class that gets kernels."""
    if torch.cuda.is_available():
        from headrace.cuda.gpu import Gpu

        return Gpu
    from cuda_host.stand_in import StandIn

    return StandIn
