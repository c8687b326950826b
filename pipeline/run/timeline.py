"""The timeline of a loader: which thread ran which stage when, and when the training loop waited, in a file.

A ``.json`` file is for Perfetto and chrome://tracing. A ``.png``, ``.svg`` or ``.pdf`` file is a picture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from headrace.ops.errors import PlanError
from headrace.ops.optional import require
from headrace.pipeline.data.new_folder import check_file, write_file
from headrace.pipeline.run.nodes import StageRecord

PICTURES = (".png", ".svg", ".pdf")

#: Of a picture: more are too narrow to see.
MOST_BATCHES_DRAWN = 40


@dataclass(frozen=True)
class HandedOut:
    """A batch that the training loop received.

    Parameters
    ----------
    epoch, index
        Which batch it is.
    records
        The work of each stage for it.
    received
        When it was handed out, on ``time.perf_counter``'s clock.
    waited
        Seconds that the training loop waited for it.
    """

    epoch: int
    index: int
    records: tuple[StageRecord, ...]
    received: float
    waited: float


@dataclass(frozen=True)
class Timeline:
    """The recent batches of a loader.

    Parameters
    ----------
    batches
        In the order in which they were handed out.
    threads
        The name of each thread by its number.
    loop
        The number of the thread of the training loop.
    rank, world_size
        Of this process.
    """

    batches: Sequence[HandedOut]
    threads: dict[int, str]
    loop: int
    rank: int
    world_size: int

    def write(self, path: str | Path) -> Path:
        """Write a file, and return its path, which has the rank in its name where there are several.

        Raises
        ------
        PlanError
            For anything but the path of a file whose name ends in one of the formats, in a folder that exists.
        OSError
            If the file cannot be written; what was there before stays.
        """
        if not isinstance(path, str | os.PathLike) or Path(path).is_dir():
            what = "a folder" if isinstance(path, str | os.PathLike) else type(path).__name__
            raise PlanError(f'profile: expected the path of a file to write, got {what}; pass one such as "trace.json"')
        path = Path(path)
        if path.suffix.lower() not in (".json", *PICTURES):
            raise PlanError(
                f"profile: expected a name that ends in .json, {', '.join(PICTURES)}, got {str(path)!r}; "
                'pass one such as "trace.json"'
            )
        if self.world_size > 1:
            path = path.with_name(f"{path.stem}.rank{self.rank}{path.suffix}")
        check_file(path, "profile", PlanError, overwrite=True)
        is_picture = path.suffix.lower() in PICTURES
        content = self._drawn(path.suffix[1:]) if is_picture else json.dumps({"traceEvents": self.events()}).encode()
        write_file(path, "profile", content)
        return path

    def events(self) -> list[dict[str, Any]]:
        """Return the events of Chrome's trace format; times are in microseconds, processes are ranks."""
        process = {"pid": self.rank}
        name = f"rank {self.rank} of {self.world_size}" if self.world_size > 1 else "headrace"
        events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "args": {"name": name}, **process}]
        for thread, called in self.threads.items():
            events.append({"ph": "M", "name": "thread_name", "args": {"name": called}, "tid": thread, **process})
        for batch in self.batches:
            number = {"epoch": batch.epoch, "batch": batch.index}
            events += [
                {
                    "name": record.origin if record.stage == record.origin else f"{record.origin}: {record.stage}",
                    **_span("stage", record.start, record.seconds, record.thread),
                    **process,
                    "args": {**number, **record.counts},
                }
                for record in batch.records
            ]
        for name, batch, start, seconds in self.spans_of_loop():
            number = {"epoch": batch.epoch, "batch": batch.index}
            events.append({"name": name, **_span("loop", start, seconds, self.loop), **process, "args": number})
        for at, count in self.ready():
            events.append({"ph": "C", "name": "batches ready", "ts": at * 1e6, "args": {"batches": count}, **process})
        return events

    def ready(self) -> list[tuple[float, int]]:
        """Return how many batches were finished and not handed out, as moments and the number from each on."""
        changes = [(max(_end(record) for record in batch.records), 1) for batch in self.batches if batch.records]
        changes += [(batch.received, -1) for batch in self.batches if batch.records]
        found, count = [], 0
        for at, change in sorted(changes, key=lambda one: (one[0], -one[1])):
            count += change
            found.append((at, count))
        return found

    def spans_of_loop(self) -> list[tuple[str, HandedOut, float, float]]:
        """Return the waits of the training loop, and its work between two batches of an epoch."""
        found = []
        for place, batch in enumerate(self.batches):
            found.append(("wait", batch, batch.received - batch.waited, batch.waited))
            later = self.batches[place + 1] if place + 1 < len(self.batches) else None
            if later is not None and (later.epoch, later.index) == (batch.epoch, batch.index + 1):
                found.append(("work", batch, batch.received, later.received - later.waited - batch.received))
        return found

    def _drawn(self, form: str) -> bytes:
        """Return a picture: bars for stages and batches in the row of their thread, below it the ready batches."""
        require("matplotlib", extra="plot", stage="profile")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if not self.batches:
            raise PlanError("profile: expected batches to draw, got none yet; iterate over the loader first")
        shown = replace(self, batches=list(self.batches)[-MOST_BATCHES_DRAWN:])
        spans = [
            (record.thread, record.origin, record.start, record.seconds)
            for batch in shown.batches
            for record in batch.records
        ]
        spans += [(self.loop, name, start, seconds) for name, _, start, seconds in shown.spans_of_loop()]
        first = min(start for _, _, start, _ in spans)
        rows = [self.loop, *sorted({thread for thread, *_ in spans if thread != self.loop}, key=self._named)]
        stages = list(dict.fromkeys(name for thread, name, *_ in spans if name not in ("wait", "work")))
        colours: dict[str, Any] = {"wait": "tab:red", "work": "0.8"} | {
            stage: f"C{place if place < 3 else place + 1}" for place, stage in enumerate(stages)
        }
        figure = Figure(figsize=(11, 1.8 + 0.5 * len(rows)), layout="constrained")
        FigureCanvasAgg(figure)
        bars, depth = figure.subplots(2, 1, sharex=True, height_ratios=(len(rows), 1.2))
        for name, colour in colours.items():
            for place, thread in enumerate(rows):
                # Stages within a wait of the loop itself are drawn over it, in the lower half of the row.
                of_loop = thread == self.loop and name not in ("wait", "work")
                parts = [
                    ((start - first) * 1e3, seconds * 1e3)
                    for of, own, start, seconds in spans
                    if own == name and of == thread
                ]
                where = (place - 0.4, 0.4) if of_loop else (place - 0.4, 0.8)
                if parts:
                    bars.broken_barh(parts, where, facecolors=colour, edgecolors="white", linewidth=0.3)
            bars.plot([], [], color=colour, linewidth=6, label=name)
        bars.set_yticks(range(len(rows)), [self._named(thread) for thread in rows])
        bars.invert_yaxis()
        bars.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
        ready = shown.ready()
        depth.step([(at - first) * 1e3 for at, _ in ready], [count for _, count in ready], where="post", color="0.3")
        depth.set_ylabel("batches\nready")
        depth.set_xlabel("milliseconds")
        bars.set_title(f"the last {len(shown.batches)} batches", fontsize="medium")
        picture = BytesIO()
        figure.savefig(picture, dpi=110, format=form.lower())
        return picture.getvalue()

    def _named(self, thread: int) -> str:
        return self.threads.get(thread, f"thread {thread}")


def _span(category: str, start: float, seconds: float, thread: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "ts": start * 1e6, "dur": seconds * 1e6, "tid": thread}


def _end(record: StageRecord) -> float:
    return record.start + record.seconds
