"""Counters: what the stages did for the batches that were handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.run.nodes import StageRecord


@dataclass
class Stats(Mapping[str, Mapping[str, float]]):
    """Totals by stage of the plan as written: ``stats["sample_neighbor"]["edges"]``. Prints as a table.

    Stages that passes produce count for the user's stage: the hops of a sampler, the exchange in which ranks fetch a
    feature. Every stage has ``batches`` and ``seconds`` (of work, in any thread), besides its own counts: sampled
    ``seeds``, ``nodes`` and ``edges``, ``rows``, ``bytes``. Stages that fetch add the counts of their feature sources:
    bytes by place (``bytes_from_cpu``, ``bytes_from_disk``, ``bytes_from_rank``), hits of a cache. Ranks that
    communicate count ``rounds`` (every rank sends something to every other one), ``collectives`` (calls of the backend;
    one more where sizes precede the data), ``sent_bytes`` to other ranks, without those sizes, and ``copied_rows``,
    which are not requested because the rank has copies. A sampler whose graph does not fit in its GPU counts
    ``fetched_edges``, and the hits and misses of its cache of edges. Conversions count ``converted_nodes`` and
    ``converted_edges``. ``read_again`` counts batches whose data were read a second time, because the training loop
    wrote to them after the first read (`FeatureStore`). Only batches that the training loop received are counted, so
    the counts do not depend on prefetching.

    Parameters
    ----------
    stages
        Totals by stage name and counter.
    waited
        Seconds that the training loop waited for batches.
    lowered
        The same totals by the stages of the plan that runs, which ``loader.explain()`` shows.
    """

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    waited: float = 0.0
    lowered: dict[str, dict[str, float]] = field(default_factory=dict)

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


class Counters:
    """What a loader keeps to make stats of: totals of the stages that run."""

    def __init__(self) -> None:
        self.waited = 0.0
        self._lowered: dict[str, dict[str, float]] = {}
        self._origins: dict[str, str] = {}

    def add(self, records: tuple[StageRecord, ...], waited: float) -> None:
        """Add what happened to one batch, for which the training loop waited some seconds."""
        self.waited += waited
        for record in records:
            totals = self._lowered.get(record.stage)
            if totals is None:
                totals = self._lowered[record.stage] = {"batches": 0, "seconds": 0.0}
                self._origins[record.stage] = record.origin
            totals["batches"] += 1
            totals["seconds"] += record.seconds
            for name, count in record.counts.items():
                totals[name] = totals.get(name, 0) + count

    def stats(self) -> Stats:
        """Return the totals as they are now."""
        stages: dict[str, dict[str, float]] = {}
        for stage, totals in self._lowered.items():
            whole = stages.setdefault(self._origins[stage], {})
            for name, total in totals.items():
                # Each batch goes through all that was made of a stage, and is still one.
                whole[name] = total if name == "batches" else whole.get(name, 0) + total
        return Stats(stages, self.waited, {name: dict(totals) for name, totals in self._lowered.items()})


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
