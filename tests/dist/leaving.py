"""Ranks that part: every way for one rank to leave a cooperative loop, in jobs that torchrun starts.

``python tests/dist/leaving.py --ranks 2 4`` runs the whole grid and prints when the last process was gone, counted
from the moment at which rank 1 parted, and what the other ranks heard. It ends with status 1 if one missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: Seconds within which all processes are gone.
LIMIT = 30.0

#: What the others must hear, and the status of rank 1; None where it is not asked for.
SCENARIOS: dict[str, str] = {
    "none": "",
    "together": "",
    "break": r"rank 1 left epoch 0 after batch 3",
    "break_behind_the_step": r"rank 1 left epoch 0 after batch 3",
    "break_and_stay": r"rank 1(, which)? left epoch 0 after batch 3",
    "continue": r"rank 1 .*batch 4",
    "continue_after_forward": r"rank 1 .*batch 4",
    "skip_the_sum": r"rank 1 .*batch 4",
    "raise": r"rank 1(, which)? (failed|left)",
    "exit": r"rank 1(, which)? (failed|left)",
    "kill": r"lost the connection to rank 1",
    "stop": r"rank 1 did not come",
}
CLOSINGS = ("with", "without", "without_prefetch")


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Parameters
    ----------
    gone
        Seconds from the parting until each process was gone, by rank; None for one that never was.
    errors
        The `PeerError` of each rank, or nothing.
    output
        What the job printed.
    """

    gone: dict[int, float | None]
    errors: dict[int, str]
    output: str
    stopped_at_end: bool = False


def run_job(world_size: int, scenario: str, closing: str, *, timeout: float = 5.0, limit: float = LIMIT) -> Outcome:
    """Run a job by torchrun, look at its processes until they are gone or the time is over, and kill what is left."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as output:
        folder = Path(name)
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"),
            *(str(here / "leaving_rank.py"), scenario, closing, str(timeout), name),
        ]
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        job = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        began, parted = time.time(), None
        gone: dict[int, float | None] = dict.fromkeys(range(world_size))
        while None in gone.values() and time.time() < (began + 60.0 if parted is None else parted + limit):
            time.sleep(0.05)
            words = {rank: _word(folder, rank) for rank in range(world_size)}
            parted = words[1].get("parted", words[1].get("done"))
            for rank, word in words.items():
                if gone[rank] is None and "pid" in word and not _lives(word["pid"], count_stopped=rank != 1):
                    gone[rank] = time.time()
            if job.poll() is not None and not any("pid" in word for word in words.values()):
                break
        words = {rank: _word(folder, rank) for rank in range(world_size)}
        for word in words.values():
            if "pid" in word and _lives(word["pid"], count_stopped=True):
                os.kill(word["pid"], 9)
        job.wait()
        output.seek(0)
        since = parted or began
        seconds = {rank: None if at is None else at - since for rank, at in gone.items()}
        return Outcome(seconds, {rank: word.get("error", "") for rank, word in words.items()}, output.read())


def faults(outcome: Outcome, scenario: str) -> list[str]:
    """Return what is not as it should be."""
    found = [f"rank {rank} was not gone" for rank, seconds in outcome.gone.items() if seconds is None]
    expected = SCENARIOS[scenario]
    for rank, error in outcome.errors.items():
        if not expected:
            if error:
                found.append(f"rank {rank} raised {error!r}")
        elif rank != 1 and re.search(expected, error) is None:
            found.append(f"rank {rank} heard {error!r}")
    if re.search(r"terminate called|SIGABRT|Signal 6|Fatal Python error|Segmentation", outcome.output):
        found.append("a process was aborted")
    if not expected and re.search(r"Traceback|exitcode +: [^0]", outcome.output):
        found.append("the job failed")
    return found


def _word(folder: Path, rank: int) -> dict[str, object]:
    try:
        return json.loads((folder / f"{rank}.json").read_text())
    except FileNotFoundError:
        return {}


def _lives(pid: int, *, count_stopped: bool) -> bool:
    """Return whether a process is there; not if it is dead and only not yet waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X") and (count_stopped or state != "T")


def main() -> int:
    """Run the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--closing", nargs="+", choices=CLOSINGS, default=list(CLOSINGS))
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds, given to init_process_group")
    parser.add_argument("--verbose", action="store_true", help="print what jobs with faults printed")
    options = parser.parse_args()
    missed = 0
    print(f"{'ranks':>5}  {'scenario':22}  {'closing':16}  {'gone after s':20}  heard", flush=True)
    for world_size in options.ranks:
        for scenario in options.scenarios:
            for closing in options.closing:
                outcome = run_job(world_size, scenario, closing, timeout=options.timeout)
                found = faults(outcome, scenario)
                missed += bool(found)
                gone = " ".join("-" if one is None else f"{one:.1f}" for one in outcome.gone.values())
                heard = next(iter(outcome.errors[0].splitlines()), "")
                print(f"{world_size:5}  {scenario:22}  {closing:16}  {gone:20}  {heard}", flush=True)
                for fault in found:
                    print(f"       MISSED: {fault}", flush=True)
                if found and options.verbose:
                    print(outcome.output, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
