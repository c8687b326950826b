"""Counters: what the stages did for the batches that were handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.run.nodes import StageRecord


@dataclass
class Stats(Mapping[str, Mapping[str, float]]):
    """Totals by stage name: ``stats["sample_fused"]["edges"]``. Prints as a table.

    Every stage has ``batches`` and ``seconds`` (of work, wherever it ran), besides what it counts itself: ``seeds``,
    ``vertices``, ``edges``, ``rows``, ``bytes``. Those that fetch add what their feature sources count: bytes by the
    place that they came from (``bytes_from_cpu``, ``bytes_from_disk``, ``bytes_from_rank``), a cache's hits. Stages
    that communicate count ``rounds`` (every rank sends something to every other one), ``collectives`` (calls of the
    backend: what is sent may be preceded by its sizes), ``sent_bytes`` to other ranks, without those sizes, and
    ``copied_rows`` that they need not ask for as they have copies. Conversions count ``converted_vertices`` and
    ``converted_edges``. Only batches that the training loop received are counted, so the counts do not depend on
    prefetching.

    Parameters
    ----------
    stages
        Totals by stage name and counter.
    waited
        Seconds that the training loop waited for batches.
    """

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    waited: float = 0.0

    def add(self, records: tuple[StageRecord, ...]) -> None:
        """Add what happened to one batch."""
        for record in records:
            totals = self.stages.setdefault(record.stage, {"batches": 0, "seconds": 0.0})
            totals["batches"] += 1
            totals["seconds"] += record.seconds
            for name, count in record.counts.items():
                totals[name] = totals.get(name, 0) + count

    def copy(self) -> Stats:
        """Return the totals as they are now."""
        return Stats({name: dict(totals) for name, totals in self.stages.items()}, self.waited)

    def total(self, counter: str) -> float:
        """Return the sum of a counter over all stages, 0 if none counts it."""
        return sum(totals.get(counter, 0) for totals in self.stages.values())

    def __getitem__(self, stage: str) -> Mapping[str, float]:
        return self.stages[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __str__(self) -> str:
        columns = list(dict.fromkeys(name for totals in self.stages.values() for name in totals))
        rows = [["stage", *columns]]
        for stage, totals in self.stages.items():
            rows.append([stage, *(_number(totals.get(name)) for name in columns)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in rows
        ]
        return "\n".join([*lines, f"the training loop waited {self.waited:.2f} s for batches"])


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
