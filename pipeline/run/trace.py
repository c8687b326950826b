"""A timeline of recent batches in the Chrome trace format (chrome://tracing, Perfetto)."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path

from headrace.pipeline.plan.errors import UsageError
from headrace.pipeline.run.nodes import StageRecord, Work

#: Records that are kept, of the most recent batches: about 4 MB.
MOST_RECORDS = 20_000


class Trace:
    """The stage records of a loader's most recent batches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, tuple[StageRecord, ...]]] = deque()
        self._num_records = 0

    def add(self, work: Work) -> None:
        """Remember what happened to a batch that was handed out."""
        self._batches.append((work.epoch, work.index, work.records))
        self._num_records += len(work.records)
        while self._num_records > MOST_RECORDS:
            self._num_records -= len(self._batches.popleft()[2])

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
            for epoch, index, records in self._batches
            for record in records
        ]
        if not isinstance(path, str | os.PathLike) or Path(path).is_dir():
            what = "a folder" if isinstance(path, str | os.PathLike) else type(path).__name__
            raise UsageError(
                f'profile: expected the path of a file to write, got {what}; pass one such as "trace.json"'
            )
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
