"""Two commits in turns: the CPU time and the peak memory of the same cases, on a machine whose speed drifts.

Each commit is built once, in build/commits. In each case a new process of either build takes turns with that of the
other. CPU time is that of all threads and ranks. Peak memory is that of the processes of the case, preparation
included. Changes that are not committed are not measured. The Python of an environment may replace a commit.

    python bench/two_builds.py --old 0.1.0 --new HEAD --append bench/by_commit.csv
"""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import build_cases
import by_commit
from case_turns import CASES
from commits import Build, build_of
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    arguments,
    check_same_work,
    describe_machine,
    interleave,
    print_table,
    processor,
    write_json,
)
from plot import draw_bars
from worker import Worker, variables

SCRIPT = Path(build_cases.__file__).resolve()
#: The case that is a new process in each turn.
FIRST_LOADER = "first loader"
NAMES = (*CASES, FIRST_LOADER)
METRICS = ("time", "CPU time", "peak memory", "inputs")


def first_loader(build: Build, _: int) -> Metrics:
    """Run the script in a process of the build."""
    command = [build.python, SCRIPT.with_name("first_loader.py")]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=variables())
    return {**json.loads(result.stdout), "inputs": 1}


def turn(worker: Worker, number: int) -> Metrics:
    """Run a turn in the process of a build."""
    metrics: Metrics = worker.call("turn", number=number)
    return metrics


def compare(case: str, builds: dict[str, Build], rounds: int) -> list[Record]:
    """Return the records of one case, and how many times better the old build is: new over old."""
    with ExitStack() as stack:
        systems, threads = [], CASES[case].threads if case in CASES else 1
        for side, build in builds.items():
            if case == FIRST_LOADER:
                run = partial(first_loader, build)
            else:
                worker = stack.enter_context(closing(Worker(build.python, SCRIPT)))
                worker.call("prepare", name=case)
                run = partial(turn, worker)
            systems.append(System(f"{side} {build.label}", run, threads))
        gains = [Gain(systems[0].key, systems[1].key, metric) for metric in METRICS]
        return interleave("two builds", case, systems, rounds=rounds, gains=gains, warm_up=1)


def print_ratios(records: list[Record]) -> None:
    """Print new over old of each case: the median of all rounds with its range, and that of their least values."""
    for case, cpu in by_commit.ratios(records, "CPU time").items():
        old, new = (one.min for one in records if (one.case, one.metric) == (case, "CPU time"))
        memory = by_commit.ratios(records, "peak memory")[case].median
        print(
            f"{case:<22} CPU time × {cpu.median:.3f} ({cpu.min:.3f} to {cpu.max:.3f}), by the least × {new / old:.3f}"
            f"; peak memory × {memory:.3f}",
            flush=True,
        )


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    parser.add_argument("--old", default="0.1.0", help="commit, or the Python of a build (default: %(default)s)")
    parser.add_argument("--new", default="HEAD", help="the other one (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=NAMES, default=NAMES, metavar="CASE", help=", ".join(NAMES))
    parser.add_argument("--append", type=Path, metavar="PATH", help="add a line of the ratios to this table of commits")
    options = parser.parse_args()
    try:
        builds = {side: build_of(name) for side, name in (("old", options.old), ("new", options.new))}
    except ValueError as error:
        parser.error(str(error))
    if options.append and not all(build.commit for build in builds.values()):
        parser.error("--append: expected two commits, got a Python; name the commit that it is a build of")
    print(describe_machine(["torch", "numpy"]))
    print(f"{builds['new'].label} beside {builds['old'].label}")
    records: list[Record] = []
    for name in options.cases:
        for make in CASES[name].inputs if name in CASES else ():
            make()
        of_case = compare(name, builds, options.rounds)
        print_ratios(of_case)
        records += of_case
        write_json(options.json, records)  # what is there by now
    print_table(records)
    draw_bars(options.plot, records, "CPU time")
    check_same_work(records, tolerance=0.03)
    if options.append:
        today = datetime.now(timezone.utc).date().isoformat()
        by_commit.append(options.append, by_commit.line_of(records, today, processor()))


if __name__ == "__main__":
    main()
