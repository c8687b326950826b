"""`import headrace` beyond `import torch`: the median over fresh processes, against a budget of 50 ms."""

from __future__ import annotations

import subprocess
import sys

from harness import Metrics, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars

BUDGET_MS = 50.0
PROGRAM = """
import time
import torch
started = time.perf_counter()
import headrace
print(time.perf_counter() - started)
"""


def import_headrace(_: int) -> Metrics:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return {"time": float(result.stdout) * 1e3}


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    print(describe_machine(["headrace", "torch"]))
    system = System("headrace", import_headrace)
    records = interleave("import", "after torch", [system], rounds=options.rounds)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    median = records[0].median
    print(f"\n{'within' if median < BUDGET_MS else 'OVER'} the budget of {BUDGET_MS:.0f} ms")
    return int(median >= BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
