"""The start of headrace beyond `import torch`: importing it, a first plan, loader and typed batch, and the help.

The median over fresh processes. Names are loaded when they are asked for, so `import headrace` alone says little: with
the names of a usual script, which makes a graph, a store and a plan, it is what was loaded at once before. The first
batch of a typed graph finds the edges of each type in every row, once a graph.

``--quick`` takes the import, the plan and the help alone, for `make bars`, in ten seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bars import BARS
from harness import (
    WARM_UP_ROUNDS,
    Gain,
    Metrics,
    Record,
    System,
    arguments,
    describe_machine,
    interleave,
    print_table,
    write_json,
)
from plot import draw_bars

PROGRAM = """
import time
begun = time.perf_counter()
import torch
started = time.perf_counter()
import headrace as hr
imported = time.perf_counter()
graph = hr.Graph.from_coo(torch.arange(90), torch.arange(90).roll(1), num_nodes=90)
store = hr.FeatureStore(node={"x": torch.randn(90, 4), "y": torch.arange(90)})
plan = hr.ItemSampler(90, batch_size=10, shuffle=True, seed=0).sample_neighbor(graph, fanouts=[2, 2])
plan = plan.fetch_feature(store, node=["x"], labels="y")
planned = time.perf_counter()
loader = plan.loader()
made = time.perf_counter()
print(started - begun, imported - started, planned - started, made - planned)
"""
# 20 M edges of 8 types between 2 M nodes of 4.
TYPED = """
import time
import torch
import headrace as hr
nodes = {f"n{i}": 500_000 for i in range(4)}
edges = {(f"n{i % 4}", f"e{i}", f"n{(i + 1 + i // 4) % 4}"): 2_500_000 for i in range(8)}
firsts = {name: 500_000 * i for i, name in enumerate(nodes)}
torch.manual_seed(0)
src = torch.cat([torch.randint(500_000, (count,)) + firsts[name[0]] for name, count in edges.items()])
dst = torch.cat([torch.randint(500_000, (count,)) + firsts[name[2]] for name, count in edges.items()])
graph = hr.Graph.from_coo(src, dst, node_types=nodes, edge_types=edges)
items = hr.ItemSampler({"n0": torch.arange(100_000)}, batch_size=1024, shuffle=True, seed=0)
loader = items.sample_neighbor(graph, fanouts=[dict.fromkeys(edges, 5)] * 2).loader()
made = time.perf_counter()
next(iter(loader))
print(time.perf_counter() - made)
"""
STEPS = ("import torch", "import headrace", "import headrace and a first plan", "a first loader")
#: What the first plan costs, which imports all public names, in imports of torch.
GAINS = [Gain(("import torch", 1), ("import headrace and a first plan", 1))]


def missed(records: Sequence[Record], slower: float) -> list[str]:
    """Return the claims about times that records miss, on a machine that is so many times slower than theirs."""
    bars = [replace(bar, at_most=bar.at_most * slower) for bar in BARS if bar.bench == "import" and bar.at_most]
    return [bar.claim for bar in bars for one in bar.decided_by(records) if not bar.met(one)]


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--quick", action="store_true", help="the import, a first plan and the help, in three rounds")
    parser.add_argument("--slower", type=float, default=1.0, metavar="TIMES", help="the bars are so many times as high")
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch"]))
    with tempfile.TemporaryDirectory() as compiled:
        # Compiled files are read, as from an installed package, and not made in each process.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def of_program(name: str, program: str, number: int = 0) -> System:
            def run(_: int) -> Metrics:
                command = [sys.executable, "-c", program]
                result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
                return {"time": float(result.stdout.split()[number]) * 1e3}

            return System(name, run)

        def of_process(name: str, *command: str) -> System:
            def run(_: int) -> Metrics:
                started = time.perf_counter()
                subprocess.run(command, capture_output=True, check=True, env=environment)
                return {"time": (time.perf_counter() - started) * 1e3}

            return System(name, run)

        rounds, warm_up = (3, 1) if options.quick else (options.rounds, WARM_UP_ROUNDS)
        steps = [of_program(name, PROGRAM, i) for i, name in enumerate(STEPS[:3] if options.quick else STEPS)]
        records = interleave("import", "after torch", steps, rounds=rounds, gains=GAINS, warm_up=warm_up)
        processes = [
            of_process("headrace --help", str(Path(sys.executable).parent / "headrace"), "--help"),
            of_process("python -m headrace --help", sys.executable, "-m", "headrace", "--help"),
            of_process("python -c pass", sys.executable, "-c", "pass"),
        ]
        records += interleave("import", "a process", processes, rounds=rounds, warm_up=warm_up)
        if not options.quick:
            typed = [of_program("a first batch of a typed graph", TYPED)]
            records += interleave("import", "20 M edges of 8 types", typed, rounds=min(rounds, 5), warm_up=1)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    claims = missed(records, options.slower)
    print(f"\nmissed: {', '.join(claims) or 'none'}")
    return int(bool(claims))


if __name__ == "__main__":
    sys.exit(main())
