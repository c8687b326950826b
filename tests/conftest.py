"""What every test stands on: a clean sys.path, hypothesis settings, the shared graphs."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import hypothesis
import pytest
from combinations import pytest_addoption, pytest_collection_modifyitems  # noqa: F401 - hooks
from idle_modules import IdleModules

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"

# Machines that run tests are shared, so a slow example says nothing; its seed, printed, does.
# In CI a commit has one verdict: examples are new each time where people run the tests.
hypothesis.settings.register_profile(
    "headrace", deadline=None, print_blob=True, derandomize="CI" in os.environ, max_examples=30
)
# For `make test-thorough`.
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("headrace"), max_examples=200)
# For `make mutants`, where a test fails on purpose: the smallest example that fails is of no interest.
hypothesis.settings.register_profile(
    "mutants",
    hypothesis.settings.get_profile("headrace"),
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
# For `make test-quick`, and under another torch or sanitizers: every path once, of code that has passed with more.
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("headrace"), max_examples=8)
hypothesis.settings.load_profile("headrace")

HAZARD = f"""the repository root is on sys.path: {ROOT}
Its cuda/ folder then hides NVIDIA's `cuda` package, and `import cupy` and everything on top of it breaks.
Run the tests with the `pytest` command (`make test`), not with `python -m pytest`, or set PYTHONSAFEPATH=1;
PYTHONPATH must not name the repository root either."""


def pytest_configure(config):
    """Refuse to run where a pass would say nothing about an installed headrace."""
    # An empty entry is the working directory.
    if any(Path(entry or ".").resolve() == ROOT for entry in sys.path):
        raise pytest.UsageError(HAZARD)
    if not config.pluginmanager.has_plugin("gpu.launches"):  # which judges by itself
        config.pluginmanager.register(IdleModules())


def pytest_collection_finish():
    """Let the collector pass over what imports have made, which stays: half a second for each `gc.collect()`."""
    gc.collect()
    gc.freeze()


def pytest_report_header():
    """Say at the top which tests will not run."""
    if not SHARED_DATA.is_dir():
        return f"shared data: not found at {SHARED_DATA}; every test that uses `shared_data` is skipped"
    return f"shared data: {SHARED_DATA}"


@pytest.fixture(autouse=True, scope="session")
def _threads_of_torch():
    """Where tests run side by side, torch's threads would mostly wait for each other's cores."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed_of_torch():
    """Let plans without a seed, which take torch's, be the same in every run."""
    import torch  # here, as the process that hands tests to others needs none

    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():  # else torch would keep the order for later, and the stack with it: milliseconds
        torch.cuda.manual_seed_all(0)


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder of real graphs (cora.npz, amazon_computers.npz, ...), or skip."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real graphs are not at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(autouse=True)
def forget_what_was_compiled():
    """Loaders mark sizes in a process that has compiled a model: the next test is in another one, as it were."""
    yield
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if any(getattr(dynamo, "cached_backends", {}).values()):
        sys.modules["torch._dynamo"].reset()
