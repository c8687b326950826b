"""DGL's sums, means and GAT over a whole graph: run by the Python of .venv-dgl (`make peers-graphbolt`)."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from live_bytes import most_live
from worker import serve

state: dict[str, Any] = {}


def versions() -> str:
    return f"dgl {dgl.__version__}, torch {torch.__version__}"


def load(folder: str) -> None:
    indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")).int() for name in ("indptr", "indices"))
    ids = torch.arange(len(indices), dtype=torch.int32)  # one of its kernels wants them by name
    state["graph"] = dgl.graph(("csc", (indptr, indices, ids)), num_nodes=len(indptr) - 1)
    state["graph"].create_formats_()  # all that its kernels ask for, made once


def prepare(kind: str, folder: str) -> None:
    """Take the input, the gradient of the output and parameters from files, and check the output against one.

    Raises
    ------
    ValueError
        If it is another.
    """
    arrays = {path.stem: torch.from_numpy(np.load(path)) for path in (Path(folder) / kind).glob("*.npy")}
    graph = state["graph"]
    if kind == "GAT":
        _, heads, columns = arrays["att_src"].shape
        layer = dgl.nn.GATConv(arrays["x"].shape[1], columns, heads, allow_zero_in_degree=True)
        with torch.no_grad():
            layer.fc.weight.copy_(arrays["lin.weight"])
            layer.attn_l.copy_(arrays["att_src"])
            layer.attn_r.copy_(arrays["att_dst"])
            layer.bias.copy_(arrays["bias"])
        state["call"] = lambda x: layer(graph, x).flatten(1)
    else:
        state["call"] = partial({"sum": dgl.ops.copy_u_sum, "mean": dgl.ops.copy_u_mean}[kind], graph)
    state.update(x=arrays["x"], gradient=arrays["gradient"])
    with torch.no_grad():
        if not torch.allclose(state["call"](state["x"]), arrays["expected"], rtol=1e-3, atol=1e-3):
            raise ValueError(f"spmm: expected DGL's {kind} to compute what headrace does")


def step(backward: bool) -> float:
    leaf = state["x"].detach().requires_grad_(backward)
    started = time.perf_counter()
    out = state["call"](leaf)
    if backward:
        out.backward(state["gradient"])
    return time.perf_counter() - started


def use(threads: int) -> None:
    """Let torch and DGL, which has an OpenMP of its own, take so many threads."""
    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)


def run(backward: bool, threads: int) -> float:
    """Return the seconds of one turn."""
    use(threads)
    return step(backward)


def peak(backward: bool, threads: int) -> float:
    """Return the most bytes of tensors that are alive at once."""
    use(threads)
    return most_live(lambda: step(backward), [state["x"], state["gradient"]])


if __name__ == "__main__":
    serve({"versions": versions, "load": load, "prepare": prepare, "run": run, "peak": peak})
