"""The command `doctor`: what is installed here, and what each missing thing costs."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.pipeline.cli.parser import add_json, answer
from headrace.pipeline.version import VERSION

#: What is optional: the module, the name of its package, and what is not there without it.
OPTIONAL = (
    ("cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "no GPU runs kernels of headrace", "headrace[cuda13]"),
    ("torch_geometric", ("torch-geometric",), "no headrace.pyg, no .to_pyg(), no objects of PyG", "headrace[pyg]"),
    ("dgl", ("dgl",), "no .to_dgl(), no objects of DGL", "headrace[dgl]"),
    ("duckdb", ("duckdb",), "no conversion of text ids, Parquet or joins", "headrace[convert]"),
    ("yaml", ("PyYAML",), "no conversion of folders of GraphBolt and DGL, which YAML describes", "headrace[convert]"),
    ("pymetis", ("pymetis",), "no headrace partition --method metis", "headrace[partition]"),
    ("igraph", ("igraph",), "no headrace partition --method louvain", "headrace[louvain]"),
    ("matplotlib", ("matplotlib",), "no picture of partitions (--report)", "headrace[plot]"),
    ("scipy", ("scipy",), "no hr.Graph.from_scipy", "scipy"),
)


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    text = "list what is installed and what this machine has, and what each missing thing costs"
    parser: argparse.ArgumentParser = commands.add_parser("doctor", help=text, description=text)
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Look at the machine, and print a line for each thing."""
    found = examined()
    lines = [f"{name}: {_text(value)}" for name, value in found.items() if name not in ("missing", "advice")]
    lines += [f"missing {one['name']}: {one['cost']}; pip install '{one['install']}'" for one in found["missing"]]
    lines += [f"advice: {one}" for one in found["advice"]]
    answer(found, "\n".join(lines), as_json=options.json)


def examined() -> dict[str, Any]:
    """Return versions, hardware, limits, what is missing and advice; GPUs are asked, but not used."""
    import numpy as np
    import torch

    from headrace.ops import _native
    from headrace.pipeline.plan.machine import Machine

    machine = Machine.detect(1)
    sets = [one.name.lower() for one in _native.InstructionSet if _native.has(one)]
    found: dict[str, Any] = {
        "headrace": VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        "torch": torch.__version__,
        "torchdata": _version(("torchdata",)),
        "numpy": np.__version__,
        "optional": {name: _version(packages) for name, packages, *_ in OPTIONAL if _is_there(name)},
        "cores": machine.cores,
        "threads of torch": torch.get_num_threads(),
        "instruction sets": sets,
        "memory": {"free to this process": machine.memory, "of the machine": _all_memory()},
        "shared memory (/dev/shm)": _free_disk(Path("/dev/shm")),  # noqa: S108 - its size alone is read
        "lockable memory (ulimit -l)": _lockable(),
        "open files (ulimit -n)": _limit("RLIMIT_NOFILE"),
        "io_uring": _native.has_io_uring(),
        "GPUs": _gpus(),
    }
    found["missing"] = [
        {"name": name, "cost": cost, "install": extra} for name, _, cost, extra in OPTIONAL if not _is_there(name)
    ]
    found["advice"] = _advice(found)
    return found


def _advice(found: dict[str, Any]) -> list[str]:
    advice = []
    if not found["io_uring"]:
        advice.append("no io_uring here: features on disk are read by threads, which takes more CPU time")
    if found["cores"] == 1:
        advice.append("one core: prefetching shares it with the training loop")
    gpus = found["GPUs"]
    lockable = found["lockable memory (ulimit -l)"]
    if gpus and lockable is not None and lockable < 1 << 30:
        advice.append(f"only {lockable:,} bytes can be pinned: raise ulimit -l for features read from pinned memory")
    if len(gpus) > 1 and not all(one["peers"] == [o["number"] for o in gpus if o is not one] for one in gpus):
        advice.append("not all GPUs read each other's memory: caches of several GPUs are copied through the host")
    if gpus and not _is_there("cupy"):
        advice.append("there is a GPU but no CuPy: sampling and gathers stay on the CPU")
    return advice


def _gpus() -> list[dict[str, Any]]:
    """Return name, memory and peers of each GPU that torch sees."""
    import torch

    count = torch.cuda.device_count()
    found = []
    for number in range(count):
        about = torch.cuda.get_device_properties(number)
        peers = [one for one in range(count) if one != number and torch.cuda.can_device_access_peer(number, one)]
        capability = f"{about.major}.{about.minor}"
        found.append(
            {
                "number": number,
                "name": about.name,
                "memory": about.total_memory,
                "compute capability": capability,
                "peers": peers,
            }
        )
    return found


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _version(packages: tuple[str, ...]) -> str | None:
    """Return the version of the first of some packages that is installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, as other commands start faster without it

    for package in packages:
        with suppress(PackageNotFoundError):
            return version(package)
    return "version unknown"


def _all_memory() -> int | None:
    from headrace.ops.memory_limit import most_memory_bytes

    return most_memory_bytes()


def _free_disk(path: Path) -> int | None:
    return shutil.disk_usage(path).free if path.is_dir() else None


def _lockable() -> int | None:
    return _limit("RLIMIT_MEMLOCK")


def _limit(name: str) -> int | None:
    """Return a limit of this process; None where there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(getattr(resource, name))
    return None if soft == resource.RLIM_INFINITY else soft


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(_text, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no limit" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
