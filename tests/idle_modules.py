"""Fail a run in which a module's tests of CUDA's kernels have passed without launching one.

Such a module has tested the CPU: its arguments stayed there, or what it looks at fell back to torch. A single test may
launch nothing (a refusal), and the tests of a module may run in several processes: launches travel in the reports, and
the process that collects these adds them up.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

#: What a run prints when a module has launched nothing.
NOTHING = "its tests have passed, and launched nothing on the device"


class IdleModules:
    """Adds up `report.launches` by module, where a report has it, and judges modules that ran as a whole."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._launched = Counter[str]()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up what the tests of a module have launched."""
        if not hasattr(report, "launches"):
            return
        module = report.nodeid.partition("::")[0]
        self._launched[module] += report.launches
        if report.when == "call" and report.passed:
            self._passed.add(module)

    def idle(self) -> list[str]:
        """Return the modules whose tests have passed, and that have launched nothing."""
        return sorted(module for module in self._passed if not self._launched[module])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Fail a run that went well otherwise, unless it was to be a part of its modules."""
        if exitstatus == pytest.ExitCode.OK and self._judged(session.config) and self.idle():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the modules that are to blame."""
        if self._judged(terminalreporter.config):
            for module in self.idle():
                terminalreporter.line(f"FAILED {module}: {NOTHING}")

    @staticmethod
    def _judged(config: Any) -> bool:
        """Return whether all tests of its modules were to run, and this process has their reports."""
        chosen = config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args)
        return not chosen and not hasattr(config, "workerinput")
