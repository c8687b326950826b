"""The peers that bench compares with, each in an environment of its own that the Makefile builds."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker import Worker

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Environment:
    """A folder with a peer's Python, the file that marks it as complete, what it serves, and its target."""

    folder: Path
    complete: str
    script: Path
    target: str

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def ready(self) -> bool:
        return (self.folder / self.complete).exists()


GRAPHBOLT = "GraphBolt"
DGL = "DGL"
DGL_TRAINING = "DGL, training"
TORCH_SPARSE = "torch-sparse"
ENVIRONMENTS = {
    GRAPHBOLT: Environment(
        BENCH.parent / ".venv-dgl", ".dependencies", BENCH / "peers/graphbolt.py", "make peers-graphbolt"
    ),
    DGL: Environment(
        BENCH.parent / ".venv-dgl", ".dependencies", BENCH / "peers/dgl_layers.py", "make peers-graphbolt"
    ),
    DGL_TRAINING: Environment(
        BENCH.parent / ".venv-dgl", ".dependencies", BENCH / "peers/dgl_training.py", "make peers-graphbolt"
    ),
    TORCH_SPARSE: Environment(
        BENCH.parent / ".venv-torch-sparse", ".installed", BENCH / "peers/pyg.py", "make peers-torch-sparse"
    ),
}


def open_peers(stack: ExitStack, names: list[str], **graph: Any) -> dict[str, Worker]:
    """Start the peers that are installed, let each load the graph and print its versions; say which are missing.

    Parameters
    ----------
    stack : ExitStack
        Ends them.
    names : list of str
        Keys of `ENVIRONMENTS`.
    graph
        What `load` of the peers takes.
    """
    peers = {}
    for name in names:
        environment = ENVIRONMENTS[name]
        if not environment.ready:
            print(f"{name}: not measured; `{environment.target}` builds its environment")
            continue
        peers[name] = stack.enter_context(closing(Worker(environment.python, environment.script)))
        print(f"{name}: {peers[name].call('versions')}")
        peers[name].call("load", **graph)
    return peers
