"""Put faults into copies of the tree, one by one, and see that each makes its test fail.

`make mutants` does it. A mutant that survives is a test that cannot fail, and an error, unless it is listed as
equivalent, with the reason why no test can tell it from the code.

Working on the list
-------------------
An entry of `mutants.table` says "in this file replace this by that, and this test fails". It is worth having where a
line carries a promise: a law, a key of a random stream, an order, the position that a checkpoint holds, who owns a row,
what a digest covers, a count, an error that must not be lost, a folder that must be put back.

- The text that is replaced has to be in the file exactly once. Keep it short, so that changes beside it do not matter.
- After changing code, `pytest tests/mutants` tells in a second which entries no longer fit: write them anew on the new
  lines rather than dropping them. `make mutants ARGS="--only text"` runs those with the text in them,
  and `--one-in 4 --seed 0` a quarter of all.
- Name the one test that is there for the fault, not a file: it is run for every `make mutants`, so it should be fast. A
  test that needs the shared data, which copies have not, will not do.
- A test that never ends with the fault kills it only if the entry says so (`hangs=True`); better is a test that ends.
- An entry that survives wants a test, in the same change; `equivalent=` is for what has no effect by construction.

Nothing is done in the working tree. The copies are in build/mutants, with an environment for each test process; the
module is compiled there once, and then what each mutant touches. All tests are run without a mutant first: who fails
anyway kills nothing.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutants.build import BuildError, NativeBuild
from mutants.mutant import Mutant
from mutants.table import MUTANTS
from mutants.tree import OUTPUT, ROOT, Copy, applied

#: Of one test, for a mutant that makes it wait for ever; tests take some seconds, or some dozens on a busy machine.
LIMIT_SECONDS = 240
_FAILED = 1  # pytest's exit code for tests that failed, unlike those for tests that there are not or cannot be read


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "killed", "survived", "timed out" or what else went wrong."""

    mutant: Mutant
    verdict: str
    seconds: float
    output: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it was killed, or survived as it should."""
        return self.verdict == ("survived" if self.mutant.equivalent else "killed")


class Run:
    """Builds in one thread what the threads that run tests take."""

    def __init__(self, mutants: list[Mutant], jobs: int) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self._ready: queue.SimpleQueue[tuple[Mutant, Path] | None] = queue.SimpleQueue()
        self._outcomes: dict[Mutant, Outcome] = {}
        self._lock = threading.Lock()

    def outcomes(self) -> list[Outcome]:
        """Run all mutants; return what became of them, in their order.

        Raises
        ------
        BuildError
            If the code does not compile as it is.
        RuntimeError
            If a test fails on the code as it is.
        """
        build = NativeBuild(self._jobs)
        print("mutants: compiling the module", flush=True)
        module = build.build(None, OUTPUT / "native/original")
        copies = [Copy(number) for number in range(self._jobs)]
        for copy in copies:
            copy.use(module)
        print("mutants: running the tests without a mutant", flush=True)
        self._check_tests(copies[0])
        for mutant in self._mutants:
            if not mutant.is_native:
                self._ready.put((mutant, module))
        threads = [threading.Thread(target=self._test_all, args=(copy,)) for copy in copies]
        for thread in threads:
            thread.start()
        self._build_all(build)
        for _ in threads:
            self._ready.put(None)
        for thread in threads:
            thread.join()
        return [self._outcomes[mutant] for mutant in self._mutants]

    def _check_tests(self, copy: Copy) -> None:
        tests = list(dict.fromkeys(mutant.test for mutant in self._mutants))
        # Processes of xdist that collect nothing do not say which name there is no test of.
        code, output = copy.run(tests, LIMIT_SECONDS, "--collect-only")
        if code != 0:
            raise RuntimeError(f"expected a test for each mutant, but pytest cannot collect them\n{output[-4000:]}")
        code, output = copy.run(tests, LIMIT_SECONDS * len(tests), "-n", str(self._jobs))
        if code != 0:
            raise RuntimeError(f"the tests fail without a mutant\n{output[-4000:]}")

    def _build_all(self, build: NativeBuild) -> None:
        for number, mutant in enumerate(self._mutants):
            if not mutant.is_native:
                continue
            try:
                self._ready.put((mutant, build.build(mutant, OUTPUT / f"native/{number}")))
            except BuildError as error:
                self._add(Outcome(mutant, "does not compile", 0.0, str(error)))

    def _test_all(self, copy: Copy) -> None:
        while (job := self._ready.get()) is not None:
            mutant, module = job
            start = time.monotonic()
            copy.use(module)
            with applied(mutant, copy.root):
                code, output = copy.run([mutant.test], LIMIT_SECONDS)
            seconds = time.monotonic() - start
            self._add(Outcome(mutant, verdict(mutant, code), seconds, output))

    def _add(self, outcome: Outcome) -> None:
        with self._lock:
            self._outcomes[outcome.mutant] = outcome
            number, all_ = len(self._outcomes), len(self._mutants)
            print(f"[{number}/{all_}] {outcome.verdict:<8} {outcome.seconds:5.1f} s  {outcome.mutant}", flush=True)


def verdict(mutant: Mutant, code: int | None) -> str:
    """Return what pytest's exit code says of a mutant; None is that of a test that did not end in time."""
    if code is None:
        return "killed" if mutant.hangs else "timed out"
    if code == 0:
        return "survived"
    # A process that a signal ended has a negative code.
    return "killed" if code == _FAILED or code < 0 else f"was not tested: pytest exited with {code}"


def stale(mutants: Iterable[Mutant], root: Path = ROOT) -> list[str]:
    """Return a line for each mutant that does not fit the tree."""
    return [reason for mutant in mutants if (reason := mutant.misfit(root))]


def report(outcomes: list[Outcome], seconds: float) -> bool:
    """Print a table of what became of the mutants, and the output of those that are wrong; return whether none is."""
    files = max(len(outcome.mutant.file) for outcome in outcomes)
    print()
    for outcome in outcomes:
        mutant = outcome.mutant
        remark = f" (equivalent: {mutant.equivalent})" if mutant.equivalent else ""
        print(f"{mutant.file:<{files}}  {outcome.verdict:<8} {outcome.seconds:6.1f} s  {mutant.test}{remark}")
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    for outcome in wrong:
        print(f"\n{outcome.verdict}: {outcome.mutant}\n  {outcome.mutant.test}")
        print("\n".join(f"  | {line}" for line in outcome.output.splitlines()[-15:]))
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    equivalent = sum(outcome.is_right and outcome.verdict == "survived" for outcome in outcomes)
    print(
        f"\nmutants: {killed} of {len(outcomes)} killed, {equivalent} equivalent, {len(wrong)} wrong, "
        f"in {seconds / 60:.1f} minutes"
    )
    return not wrong


def main(given: list[str]) -> int:
    """Run the mutants; return an exit status."""
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time, and processes that compile")
    parser.add_argument("--only", default="", metavar="TEXT", help="run those with this text in them")
    parser.add_argument(
        "--one-in", type=int, default=1, metavar="N", help="run one in so many of these, drawn by --seed"
    )
    parser.add_argument("--seed", type=int, default=0, help="of that draw (default: %(default)s)")
    options = parser.parse_args(given)
    start = time.monotonic()
    mutants = [mutant for mutant in MUTANTS if options.only in f"{mutant} {mutant.test}"]
    drawn = set(random.Random(options.seed).sample(range(len(mutants)), -(-len(mutants) // options.one_in)))
    mutants = [mutant for place, mutant in enumerate(mutants) if place in drawn]
    if not mutants:
        parser.error(f"no mutant has {options.only!r} in it")
    if lines := stale(mutants):
        print("mutants: these no longer apply", *lines, sep="\n")
        return 1
    outcomes = Run(mutants, options.jobs).outcomes()
    return 0 if report(outcomes, time.monotonic() - start) else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
