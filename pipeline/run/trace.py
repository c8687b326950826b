"""A timeline of recent batches in the Chrome trace format (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path

from headrace.pipeline.run.nodes import StageRecord, Work

#: Stage records kept; at five stages a batch these are the last 4,000 batches, about 4 MB.
MOST_RECORDS = 20_000


class Trace:
    """The most recent stage records of a loader."""

    def __init__(self) -> None:
        self._records: deque[tuple[int, int, StageRecord]] = deque(maxlen=MOST_RECORDS)

    def add(self, work: Work) -> None:
        """Remember what happened to a batch that was handed out."""
        for record in work.records:
            self._records.append((work.epoch, work.index, record))

    def write(self, path: str | Path) -> None:
        """Write one bar per stage that ran and batch, in the row of its thread; times are in microseconds."""
        events = [
            {
                "name": record.origin if record.stage == record.origin else f"{record.origin}: {record.stage}",
                "ph": "X",
                "ts": record.start * 1e6,
                "dur": record.seconds * 1e6,
                "pid": os.getpid(),
                "tid": record.thread,
                "args": {"epoch": epoch, "batch": index, **record.counts},
            }
            for epoch, index, record in self._records
        ]
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
