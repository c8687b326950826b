"""Call the native entry points with random arguments, right and wrong, for some seconds.

    PYTHONPATH=tests python -m fuzz --seconds 20

is what `make fuzz` runs on a build with AddressSanitizer and UndefinedBehaviorSanitizer. Every call must be refused
with a proper error or give an answer that stands its check; a crash, a finding of a sanitizer, a wrong answer or a call
that does not return ends the run with the options that repeat the call. The calls are a function of
--seed. Coverage does not guide the choice: the generators know the arguments, and every entry point gets an equal share
of the calls.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import mmap
import os
import sys
import time
import traceback
import warnings
from collections import Counter

_LIMIT_SECONDS = 60  # of 64 rounds, which take less than two


def main() -> int:
    """Run the calls in a child process, whose death says which call it was."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--call", help="repeat one call, for example native.sample_hop/7")
    options = parser.parse_args()
    print(f"fuzz: seed {options.seed}, {options.seconds:g} seconds", flush=True)
    with mmap.mmap(-1, 256) as current:
        child = os.fork()
        if child == 0:
            faulthandler.enable()
            status = 1
            try:
                status = _repeat(options.seed, options.call) if options.call else _run(options, current)
            except Exception:  # noqa: BLE001  # any error is a finding
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        if status != 0 and not options.call:
            call = current[:].rstrip(b"\0").decode()
            print(f"fuzz: call {call} failed; repeat it as this run, with --seed {options.seed} --call {call}")
    return 0 if status == 0 else 1


def _entries() -> dict[str, object]:
    # Warnings about wrong arguments (complex to real) are no findings.
    warnings.simplefilter("ignore")
    # In the child: what the parent has not loaded cannot stand in the way of the fork.
    entries: dict[str, object] = importlib.import_module("fuzz.table").ENTRIES
    return entries


def _repeat(seed: int, call: str) -> int:
    name, number = call.split("/")
    answered = _entries()[name].run(f"{seed}/{name}/{number}")
    print(f"fuzz: call {call} was {'answered' if answered else 'refused'}")
    return 0


def _run(options: argparse.Namespace, current: mmap.mmap) -> int:
    entries = _entries()
    answered: Counter[str] = Counter()
    stop, number = time.monotonic() + options.seconds, 0
    while time.monotonic() < stop:
        if number % 64 == 0:
            faulthandler.dump_traceback_later(_LIMIT_SECONDS, exit=True)
        for name, entry in entries.items():
            note = f"{name}/{number}".encode()
            current[:256] = note.ljust(256, b"\0")
            answered[name] += entry.run(f"{options.seed}/{name}/{number}")
        number += 1
    faulthandler.cancel_dump_traceback_later()
    for name in entries:
        print(f"{name:<32} {number:>9} calls, {answered[name]:>9} answered, {number - answered[name]:>9} refused")
    print(f"fuzz: {number * len(entries)} calls, no finding")
    return 0


if __name__ == "__main__":
    sys.exit(main())
