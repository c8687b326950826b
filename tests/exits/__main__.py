"""Leave iterations midway in every way that `exits.scenarios` knows, many times, and print how the processes ended.

    PYTHONPATH=tests python -m exits --runs 200 --jobs 2

Half of the runs take place beside a process for each core that does nothing but work, so that threads are held up at
any place. Ends with 1 if a process ended with another status than it should, or did not end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from exits.run import TIMEOUT, run
from exits.scenarios import SCENARIOS


def work_for_ever() -> None:
    while True:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m exits", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="processes in all (200)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (2)")
    parser.add_argument(
        "--load", type=int, default=os.cpu_count(), metavar="N", help="processes beside the second half"
    )
    parser.add_argument("names", nargs="*", choices=[[], *SCENARIOS], help="of scenarios (all)")
    options = parser.parse_args()
    chosen = options.names or list(SCENARIOS)
    todo = [chosen[number % len(chosen)] for number in range(options.runs)]
    half = len(todo) // 2
    with ThreadPoolExecutor(options.jobs) as pool:
        ends = list(pool.map(run, todo[:half]))
        busy = [multiprocessing.Process(target=work_for_ever, daemon=True) for _ in range(options.load)]
        for process in busy:
            process.start()
        ends += pool.map(run, todo[half:])
        for process in busy:
            process.kill()
    print(f"| {'leaves by':50} | should | runs | right | other statuses |\n|:{'-' * 51}|-------:|-----:|------:|:--|")
    for name in chosen:
        mine = [end for end in ends if end.name == name]
        wrong = [end for end in mine if not end.is_right]
        others = ", ".join(str(end.status) for end in wrong)
        print(f"| {name:50} | {mine[0].expected:6} | {len(mine):4} | {len(mine) - len(wrong):5} | {others} |")
    wrong = [end for end in ends if not end.is_right]
    for end in wrong:
        print(f"\n{end.name}: {end.status}\n{end.errors}")
    longest = max(ends, key=lambda end: end.seconds)
    print(f"\n{len(ends) - len(wrong)} of {len(ends)} ended as they should", end="; ")
    print(f"the longest took {longest.seconds:.1f} s of {TIMEOUT:.0f} ({longest.name})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
