"""The start of headrace beyond `import torch`: importing it, a first plan, a first loader, and the command's help.

The median over fresh processes. Names are loaded when they are asked for, so `import headrace` alone says little: with
the names of a usual script, which makes a graph, a store and a plan, it is what was loaded at once before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bars import BARS
from harness import Metrics, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars

PROGRAM = """
import time
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
print(imported - started, planned - started, made - planned)
"""
STEPS = ("import headrace", "import headrace and a first plan", "a first loader")


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    print(describe_machine(["headrace", "torch"]))
    with tempfile.TemporaryDirectory() as compiled:
        # Compiled files are read, as from an installed package, and not made in each process.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def step(number: int) -> System:
            def run(_: int) -> Metrics:
                command = [sys.executable, "-c", PROGRAM]
                result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
                return {"time": float(result.stdout.split()[number]) * 1e3}

            return System(STEPS[number], run)

        def run_help(_: int) -> Metrics:
            started = time.perf_counter()
            command = [str(Path(sys.executable).parent / "headrace"), "--help"]
            subprocess.run(command, capture_output=True, check=True, env=environment)
            return {"time": (time.perf_counter() - started) * 1e3}

        systems = [step(number) for number in range(len(STEPS))]
        records = interleave("import", "after torch", systems, rounds=options.rounds)
        records += interleave("import", "a process", [System("headrace --help", run_help)], rounds=options.rounds)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    missed = [bar.claim for bar in BARS if bar.bench == "import" for one in bar.decided_by(records) if not bar.met(one)]
    print(f"\nmissed: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
