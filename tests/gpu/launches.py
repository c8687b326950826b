"""A plugin of pytest for runs on a GPU: a module whose tests pass without a kernel on the device fails the run.

Such a module has tested the CPU: its arguments stayed there, or what it looks at fell back to torch. Kernels are
counted where a GPU is given them, and where there is none at what stands in for it. Give it to pytest as
`-p gpu.launches`, with `tests` on PYTHONPATH.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from typing import Any

import pytest
import torch

#: What a run prints when a module has launched nothing.
NOTHING = "its tests have passed, and launched nothing on the device"


class Launches:
    """Counts kernels in the process that runs tests, and judges modules in the one that collects reports."""

    def __init__(self) -> None:
        self._count = 0
        self._passed: set[str] = set()
        self._launched = Counter[str]()

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

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up what the tests of a module have launched."""
        module = report.nodeid.partition("::")[0]
        self._launched[module] += report.launches
        if report.when == "call" and report.passed:
            self._passed.add(module)

    def idle(self) -> list[str]:
        """Return the modules whose tests have passed, and that have launched nothing."""
        return sorted(module for module in self._passed if not self._launched[module])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Fail a run that went well otherwise."""
        if self.idle() and exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what each module has launched, and those first that are to blame."""
        terminalreporter.section("kernels on the device")
        for module in self.idle():
            terminalreporter.line(f"FAILED {module}: {NOTHING}")
        for module, count in sorted(self._launched.items()):
            terminalreporter.line(f"{count:>8,} {module}")


def pytest_configure(config: Any) -> None:
    """Count what is launched from now on; let an interrupt, the time limit, end a run begun in the background too."""
    launches = Launches()
    config.pluginmanager.register(launches, "launches")
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
