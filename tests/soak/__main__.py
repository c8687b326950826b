"""Train for a long time with everything that goes wrong: `make soak MINUTES=60`.

Processes train on a data set on disk: rows by windows, LABOR with dependent batches, weights. They are killed at random
moments, and go on from their checkpoint with another number of ranks and threads. Beside them one process runs from the
first minute to the last, with faults in all of its stages. Checked is what users rely on:

- every batch has the bits of one process with one thread and no passes, whatever happened before;
- a fault names its stage and its batch, and the very same batch comes next;
- a killed rank ends the others: nobody waits for ever;
- memory is flat in the process that runs throughout.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import headrace as hr

from soak.worker import plan_over, write_data

WORKER = Path(__file__).with_name("worker.py")
#: In which ranks must train.
SECONDS_TO_START = 120.0
#: In which ranks must have ended when one was killed.
SECONDS_TO_END = 90.0
#: How much the memory of the process that runs throughout may grow from the second to the last quarter of a run of at
#: least that many seconds: medians, as allocators keep and return pieces of 30 MB when threads come and go.
MOST_GROWTH_MB, LEAST_SECONDS = 48.0, 600.0
FAULTS = 0.004


class Soak:
    """The processes of a soak in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.kills = self.runs = 0
        write_data(folder / "data")

    def start(self, rank: int, world_size: int, seconds: float, *extra: str) -> subprocess.Popen[bytes]:
        meeting = self.folder / f"meeting{self.runs}"
        command = [sys.executable, str(WORKER), str(self.folder), str(rank), str(world_size), str(meeting)]
        command += ["--threads", str(self.chance.choice([1, 2, 3])), "--seconds", str(seconds), *extra]
        output = (self.folder / f"output{self.runs}.{rank}").open("wb")
        return subprocess.Popen(command, stdout=output, stderr=output)

    def train_and_kill(self, seconds: float) -> None:
        """Train on one or two ranks, kill one of them midway, and see the others end."""
        self.runs += 1
        world_size = self.chance.choice([1, 2])
        ranks = [self.start(rank, world_size, 10 * seconds) for rank in range(world_size)]
        self.wait_for(ranks)
        time.sleep(seconds * self.chance.uniform(0.1, 1.0))
        victim = self.chance.choice(ranks)
        if victim.poll() is not None:
            raise AssertionError(f"a rank ended by itself:\n{self.output()}")
        victim.send_signal(signal.SIGKILL)
        self.kills += 1
        for rank in ranks:
            try:
                rank.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:  # noqa: PERF203 - processes take seconds
                rank.kill()
                raise AssertionError(f"a rank waits for one that was killed:\n{self.output()}") from None

    def wait_for(self, ranks: list[subprocess.Popen[bytes]]) -> None:
        """Wait until all ranks train: until then they wait for each other in torch, which knows of no kill."""
        end = time.monotonic() + SECONDS_TO_START
        while not {rank.pid for rank in ranks} <= {line.get("pid") for line in self.lines("training")}:
            if time.monotonic() > end:
                raise AssertionError(f"ranks did not begin to train:\n{self.output()}")
            time.sleep(0.2)

    def output(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob(f"output{self.runs}.*")))

    def lines(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / f"{kind}.log"
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                found.append(json.loads(line))
            except ValueError:  # noqa: PERF203
                continue  # of a process that was killed while it wrote
        return found

    def check(self) -> str:
        """Compare what was written with plain loaders, and return a summary.

        Raises
        ------
        AssertionError
            Saying which batch differs, or what else is not as promised.
        """
        expected = Expected(self.folder / "data")
        batches = 0
        for kind in ("training", "faulty"):
            for line in self.lines(kind):
                if "digest" in line:
                    right = expected.digest(line["world_size"], line["rank"], line["epoch"], line["batch"])
                    assert line["digest"] == right, f"{kind}: {line} is not {right}"
                    batches += 1
        faults = self.check_faults()
        epochs = 1 + max(
            line["epoch"] for kind in ("training", "faulty") for line in self.lines(kind) if "epoch" in line
        )
        return (
            f"{batches:,} batches of {epochs} epochs had the right bits, through {self.kills} kills and {faults} "
            f"faults; {self.check_memory()}"
        )

    def check_faults(self) -> int:
        lines = self.lines("faulty")
        faults = [line for line in lines if "fault" in line]
        for fault in faults:
            assert re.search(rf"in stage .*{fault['fault']}.*batch \d+ of epoch \d+", fault["note"]), fault
        taken = [(line["epoch"], line["batch"]) for line in lines if "digest" in line]
        per_epoch = 1 + max(batch for _, batch in taken)
        for (epoch, batch), (next_epoch, next_batch) in pairwise(taken):
            follows = (epoch, batch + 1) if batch + 1 < per_epoch else (epoch + 1, 0)
            assert (next_epoch, next_batch) == follows, f"after {epoch, batch} came {next_epoch, next_batch}"
        return len(faults)

    def check_memory(self) -> str:
        """Return how much the process that runs throughout grew after its first quarter, if it ran for long enough."""
        sizes = [(line["seconds"], line["mb"]) for line in self.lines("faulty") if "mb" in line]
        last, _ = sizes[-1]
        if last < LEAST_SECONDS:
            return f"memory is judged in runs of at least {LEAST_SECONDS / 60:.0f} minutes"
        early = median(size for seconds, size in sizes if last / 4 < seconds <= last / 2)
        growth = median(size for seconds, size in sizes if seconds > last * 3 / 4) - early
        most = max(size for _, size in sizes)
        assert growth <= MOST_GROWTH_MB, f"memory grew from {early} MB by {growth:.1f} MB, at most {most} MB"
        return f"memory grew from {early} MB by {growth:.1f} MB, at most {most} MB"


class Expected:
    """Digests by a plain loader: one thread, no passes that can be off, nothing read ahead."""

    def __init__(self, data: Path) -> None:
        self._plan = plan_over(data)
        self._epoch = cache(self._digests)

    def digest(self, world_size: int, rank: int, epoch: int, batch: int) -> str:
        return self._epoch(world_size, rank, epoch)[batch]

    def _digests(self, world_size: int, rank: int, epoch: int) -> list[str]:
        plain = self._plan.loader(
            num_threads=1, rank=rank, world_size=world_size, fuse_sampling=False, prefetch=False, lookahead=False
        )
        with plain as loader:
            loader.set_epoch(epoch)
            return [one.digest() for one in loader]


def soak(minutes: float, seed: int, seconds_of_run: float = 12.0) -> str:
    """Run a soak and return its summary."""
    with tempfile.TemporaryDirectory() as made:
        one = Soak(Path(made), seed)
        end = time.monotonic() + 60 * minutes
        steady = one.start(0, 1, 60 * minutes, "--faults", str(FAULTS))
        while time.monotonic() < end:
            one.train_and_kill(seconds_of_run)
            if steady.poll() not in (None, 0):
                raise AssertionError(
                    f"the process with faults ended:\n{(one.folder / 'output0.0').read_text()[-3000:]}"
                )
            print(f"{time.monotonic() - end + 60 * minutes:,.0f} s: {one.kills} kills", flush=True)
        assert steady.wait(SECONDS_TO_END) == 0, (one.folder / "output0.0").read_text()[-3000:]
        return one.check()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=os.getpid())
    options = parser.parse_args()
    print(f"headrace {hr.__version__}, seed {options.seed}", flush=True)
    print(soak(options.minutes, options.seed))


if __name__ == "__main__":
    main()
