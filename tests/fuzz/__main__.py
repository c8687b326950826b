"""Call the native entry points with random arguments, right and wrong, for some seconds.

    PYTHONPATH=tests python -m fuzz --seconds 20

is what `make fuzz` runs on a build with AddressSanitizer, UndefinedBehaviorSanitizer and counters of its basic blocks.
Every call must be refused with a proper error or give an answer that stands its check; a crash, a finding of a
sanitizer, a wrong answer or a call that does not return ends the run with a file that repeats the call:

    PYTHONPATH=tests python -m fuzz build/fuzz/crash-...

libFuzzer, which atheris brings, makes the calls. Half of them go to all entry points in turn. The others are changes of
calls that it has kept, in build/fuzz/corpus, as they ran native code that none before them ran, or ran it more often.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import warnings
from collections import Counter
from itertools import count
from pathlib import Path

import atheris

from fuzz.choices import Choices
from fuzz.coverage import register_coverage
from fuzz.table import ENTRIES

_OUTPUT = Path("build/fuzz")
_CORPUS = _OUTPUT / "corpus"
_NAMES = list(ENTRIES)
_NAME_BYTES = 2
_LONGEST_BYTES = 4096  # most calls make fewer choices
_LIMIT_SECONDS = 60  # of a call, which takes some milliseconds
_REPORT_SECONDS = 60


class Run:
    """The calls of a run, which ends itself: libFuzzer's end leaves Python no time for a report."""

    def __init__(self, seconds: float) -> None:
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.turn = count()
        self.begin = time.monotonic()
        self.reported = self.begin
        self.seconds = seconds

    def call(self, data: bytes) -> None:
        """Make the call that these bytes name: which entry point first, then its arguments."""
        choices = Choices(data)
        name = _NAMES[choices.getrandbits(8 * _NAME_BYTES) % len(_NAMES)]
        (self.answered if ENTRIES[name].run(choices) else self.refused)[name] += 1
        now = time.monotonic()
        if now - self.begin > self.seconds:
            for one in _NAMES:
                print(f"{one:<32} {self.answered[one]:>9} answered, {self.refused[one]:>9} refused")
            self._report("no finding")
            os._exit(0)
        if now - self.reported > _REPORT_SECONDS:
            self.reported = now
            self._report(f"after {now - self.begin:.0f} s")

    def change(self, data: bytes, longest: int, seed: int) -> bytes:
        """Bytes of the next call: of a new one of the entry point whose turn it is, or those given, changed."""
        source = random.Random(seed)
        if source.random() < 0.5:
            name = (next(self.turn) % len(_NAMES)).to_bytes(_NAME_BYTES, "little")
            return (name + source.randbytes(source.randrange(_LONGEST_BYTES // 4)))[:longest]
        return atheris.Mutate(data, longest)

    def _report(self, state: str) -> None:
        calls, kept = self.answered.total() + self.refused.total(), sum(1 for _ in _CORPUS.iterdir())
        print(f"fuzz: {calls:,} calls, {kept:,} kept, {state}", flush=True)


def main() -> None:
    """Fuzz, or repeat the calls of the files that are named."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="*", help="repeat these calls")
    options = parser.parse_args()
    # Warnings about wrong arguments (complex to real) are no findings.
    warnings.simplefilter("ignore")
    _CORPUS.mkdir(parents=True, exist_ok=True)
    run = Run(options.seconds)
    arguments = [
        f"-seed={options.seed + 1}",  # 0 is libFuzzer's word for any seed
        f"-timeout={_LIMIT_SECONDS}",
        f"-max_len={_LONGEST_BYTES}",
        f"-artifact_prefix={_OUTPUT}/",
        "-entropic=0",  # keeps books for longer than the calls take: half as many of them, and less code reached
        "-rss_limit_mb=0",  # calls that ask for too much are refused, which is looked at
        "-detect_leaks=0",  # Python keeps memory between calls, and every call would be made twice
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *arguments, *(options.files or [str(_CORPUS)])], run.call, custom_mutator=run.change)
    register_coverage()
    atheris.Fuzz()


if __name__ == "__main__":
    main()
