"""Call the native entry points with random arguments, right and wrong, for some seconds.

`make fuzz` does it on a build with AddressSanitizer, UndefinedBehaviorSanitizer and counters of its basic blocks. Every
call must be refused with a proper error or give an answer that stands its check; a crash, a finding of a sanitizer, a
wrong answer or a call that does not return ends the run with a file. This repeats the call, on the same commit:

    make fuzz FILES=build/fuzz/crash-...

libFuzzer, which atheris brings, makes the calls. Half of them go to all entry points in turn. The others are changes of
calls that it has kept, in build/fuzz/corpus, because they ran native code that none before them ran, or ran it another
number of times. It begins by making the calls again that earlier runs have kept.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
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

_OUTPUT = Path(__file__).resolve().parents[2] / "build/fuzz"
_NAMES = list(ENTRIES)
_NAME_BYTES = 2
# Half of the calls read fewer than 90 bytes, one in a hundred more than 1,200.
_LONGEST_BYTES = 4096
_LONGEST_NEW_BYTES = 1024
_LIMIT_SECONDS = 60  # of a call, which takes some milliseconds
_LIMIT_MEBIBYTES = 8192  # of the process; a call that asks for more than the machine has is refused before
_REPORT_SECONDS = 60


def new_call(turn: int, source: random.Random) -> bytes:
    """Bytes of a random call of the entry point with this turn."""
    name = (turn % len(_NAMES)).to_bytes(_NAME_BYTES, "little")
    return name + source.randbytes(source.randrange(_LONGEST_NEW_BYTES))


class Run:
    """The calls of a run, which ends itself: libFuzzer's end leaves Python no time for a report."""

    def __init__(self, seconds: float, corpus: Path) -> None:
        self.seconds, self.corpus = seconds, corpus
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.turn = count()
        self.begin = self.reported = math.inf  # until the calls of earlier runs are made
        self.kept_before = 0

    def call(self, data: bytes) -> None:
        """Make the call that these bytes name: which entry point first, then its arguments."""
        choices = Choices(data)
        name = _NAMES[choices.getrandbits(8 * _NAME_BYTES) % len(_NAMES)]
        try:
            (self.answered if ENTRIES[name].run(choices) else self.refused)[name] += 1
        except BaseException:
            # Python ends first: the clock of libFuzzer would then kill the process before it has written the file.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise
        now = time.monotonic()
        if now - self.begin > self.seconds:
            self.end()
        if now - self.reported > _REPORT_SECONDS:
            self.reported = now
            print(f"fuzz: {self.counts()} after {now - self.begin:.0f} s", flush=True)

    def change(self, data: bytes, longest: int, seed: int) -> bytes:
        """Bytes of the next call: of a new one of the entry point whose turn it is, or those given, changed."""
        if self.begin == math.inf:
            self.begin = self.reported = time.monotonic()
            self.answered.clear()
            self.refused.clear()
            self.kept_before = self.kept()
        source = random.Random(seed)
        return new_call(next(self.turn), source) if source.random() < 0.5 else atheris.Mutate(data, longest)

    def end(self) -> None:
        """Print how often each entry point was called, and leave without returning to libFuzzer."""
        for name in _NAMES:
            print(f"{name:<32} {self.answered[name]:>9} answered, {self.refused[name]:>9} refused")
        missed = [name for name in _NAMES if not self.answered[name] + self.refused[name]]
        failure = ""
        if missed:
            failure = f"too short, {', '.join(missed)} not called"
        elif not self.kept():
            failure = "no call was kept, libFuzzer does not see what they run"
        print(f"fuzz: {failure or f'{self.counts()}, no finding'}", flush=True)
        os._exit(1 if failure else 0)

    def kept(self) -> int:
        """Number of calls that were worth a file, in this run and in earlier ones."""
        return sum(1 for _ in self.corpus.iterdir())

    def counts(self) -> str:
        """Calls of this run, without those of earlier ones that it began with."""
        calls = self.answered.total() + self.refused.total()
        return f"{calls:,} calls, {self.kept() - self.kept_before:,} of them kept"


def main(given: list[str]) -> None:
    """Fuzz, or repeat the calls of the files that are named."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of a run, which depends on its speed and its corpus too")
    parser.add_argument("--output", type=Path, default=_OUTPUT, help="where findings and kept calls go")
    parser.add_argument("files", nargs="*", help="repeat these calls")
    options = parser.parse_args(given)
    # Warnings about wrong arguments (complex to real) are no findings.
    warnings.simplefilter("ignore")
    corpus = options.output / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    run = Run(options.seconds, corpus)
    arguments = [
        f"-seed={options.seed + 1}",  # 0 is libFuzzer's word for any seed
        f"-timeout={_LIMIT_SECONDS}",
        f"-max_len={_LONGEST_BYTES}",
        f"-artifact_prefix={options.output}/",
        f"-rss_limit_mb={_LIMIT_MEBIBYTES}",
        f"-malloc_limit_mb={1 << 30}",  # asking is no finding: the sanitizer refuses what it cannot give
        "-mutate_depth=1",  # else what has just been changed is changed again, not what was kept
        "-entropic=0",  # with its statistics of rare code there are half as many calls, and they reach less
        "-detect_leaks=0",  # Python keeps memory between calls, for which libFuzzer would make them twice
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *arguments, *(options.files or [str(corpus)])], run.call, custom_mutator=run.change)
    register_coverage()
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
