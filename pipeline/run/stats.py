"""What stages did for the batches that were handed out: counters, and the records of the recent ones."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.ops.errors import PlanError
from headrace.ops.names import Named, UnknownKeyError
from headrace.ops.text import in_utf8, printable
from headrace.pipeline.run.nodes import StageRecord, Work

#: Of the training loop's time: less is not worth a faster loader.
SMALL_SHARE = 0.05


@dataclass
class Stats(Mapping[str, Mapping[str, float]]):
    """Totals by stage of the plan as written: ``stats["sample_neighbor"]["edges"]``. Prints as a table.

    Stages that passes produce count for the user's stage: the hops of a sampler, the exchange in which ranks fetch a
    feature. Only batches that the training loop received are counted, so the counts do not depend on prefetching.

    ======================================  ==========================================================================
    every stage
    ``batches``, ``seconds``                batches, and seconds of work in any thread
    sources and samplers
    ``seeds``                               seeds of the batches
    ``negatives``                           negative pairs that were drawn
    ``nodes``, ``edges``                    nodes and edges that sampling added
    ``bidirectional_edges``                 edges of blocks with the reverse of each edge
    ``induced_edges``                       edges of the subgraphs of the sampled nodes
    ``walks``                               random walks
    ``fetched_edges``                       edges that were copied to a GPU whose memory the graph does not fit in; its
                                            cache of edges counts ``hits`` and ``misses``
    ``padding_nodes``, ``padding_edges``    nodes and edges that ``pad`` added
    ``larger_batches``                      batches larger than the shapes of ``pad``, which have a larger one
    ``converted_nodes``,                    nodes and edges of batches of other libraries
    ``converted_edges``
    features
    ``rows``, ``bytes``                     rows in the batches and their bytes; with ``cooperative=True`` the rows that
                                            this rank owns, each once
    ``bytes_from_PLACE``                    bytes read from a place: ``cpu``, ``disk``, ``pinned`` memory, ``cuda``, a
                                            ``cache``, another GPU (``peer``), another ``rank``
    ``distinct_rows``                       rows that several batches read together, each once: the rows read from the
                                            source, fewer than ``rows`` (pass ``lookahead``)
    ``reread_rows``                         rows that this rank read once more, because several ranks want them
                                            (``fuse_exchange=False`` reads each row once)
    ``disk_reads``, ``disk_bytes``          reads of a `DiskFeature`, and their bytes with the gaps between rows
    ``hits``, ``misses``,                   rows that a cache held, or did not hold; rows that made room for others
    ``evictions``
    ``read_again``                          batches whose data were read a second time, because the training loop wrote
                                            to them after the first read (`FeatureStore`)
    several ranks
    ``rounds``                              times that every rank sent something to every other one
    ``collectives``                         calls of the backend; one more where sizes precede the data
    ``sent_bytes``                          bytes sent to other ranks, without those sizes
    ``copied_rows``                         rows that were not requested, because the rank has copies
    ``rows_to_mirrors``,                    rows that ranks which share edges exchange once in each direction of the
    ``rows_to_masters``, ``messages``       model, and messages between them
    ======================================  ==========================================================================

    Feature sources of your own add the counts of their `Rows`.

    Parameters
    ----------
    stages
        Totals by stage name and counter.
    waited
        Seconds that the training loop waited for batches.
    lowered
        The same totals by the stages of the plan that runs, which ``loader.explain()`` shows.
    worked
        Seconds between two batches of an epoch in which the loop worked with the first.
    """

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    waited: float = 0.0
    lowered: dict[str, dict[str, float]] = field(default_factory=dict)
    worked: float = 0.0

    @property
    def waited_share(self) -> float:
        """Which share of its time the training loop waited for batches, from 0 to 1."""
        return self.waited / (self.waited + self.worked) if self.waited else 0.0

    @property
    def rates(self) -> dict[str, float]:
        """The numbers of batches, seeds, edges, rows and bytes for each second of the training loop's time."""
        seconds = self.waited + self.worked
        totals = {name: self.total(name) for name in ("seeds", "edges", "rows", "bytes")}
        totals = {"batches": max((one["batches"] for one in self.stages.values()), default=0), **totals}
        rates = {name: total / seconds for name, total in totals.items() if total and seconds}
        return Named("loader.stats().rates", rates)

    @property
    def verdict(self) -> str:
        """Whether training would be faster with a faster loader, and if so which stage takes longest."""
        if not self.stages:
            return "no batch was handed out yet"
        said = f"the training loop waited {self.waited_share:.0%} of its time for batches"
        if self.waited_share < SMALL_SHARE:
            return f"{said}: the loader is not the limit"
        slowest = max(self.stages, key=lambda stage: self.stages[stage]["seconds"])
        share = self.stages[slowest]["seconds"] / max(self.total("seconds"), 1e-9)
        return f"{said}, the most that a faster loader saves; {share:.0%} of the loader's work is {slowest}"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as dictionaries of numbers, which JSON can hold."""
        return {
            "waited": self.waited,
            "worked": self.worked,
            "waited_share": self.waited_share,
            "rates": self.rates,
            "stages": {stage: dict(totals) for stage, totals in self.stages.items()},
            "lowered": {stage: dict(totals) for stage, totals in self.lowered.items()},
        }

    def scalars(self) -> dict[str, float]:
        """Return all of it under flat names, ``"loader/fetch_feature/bytes"``, for TensorBoard and other loggers."""
        found = {"loader/waited_seconds": self.waited, "loader/waited_share": self.waited_share}
        found |= {f"loader/{name}_per_second": rate for name, rate in self.rates.items()}
        return found | {f"loader/{stage}/{name}": total for stage, name, total in self._totals()}

    def prometheus(self, **labels: str) -> str:
        """Return the totals in the text format of Prometheus, for a scrape or its collector of text files.

        Each counter is a metric, ``headrace_stage_bytes_total{stage="fetch_feature"}``, whose sums have one unit.

        Parameters
        ----------
        labels
            Labels of every line, such as ``rank="0"``.

        Raises
        ------
        PlanError
            For the label `stage`, which lines have already, and for names that Prometheus does not take.
        """
        for name in labels:
            if name == "stage" or not re.fullmatch("(?!__)[a-zA-Z_][a-zA-Z0-9_]*", name):
                raise PlanError(
                    f"prometheus: expected labels of other names than stage, of ASCII letters, digits and underscores, "
                    f"got {name!r}; rename it"
                )
        # All lines of a metric stand together, and each stage has one. Sources of your own name counters as they like.
        metrics: dict[str, dict[str, float]] = {}
        for stage, name, total in self._totals():
            of_stages = metrics.setdefault(re.sub("[^a-zA-Z0-9_]", "_", name), {})
            of_stages[stage] = of_stages.get(stage, 0) + total
        lines = list[str]()
        for name, of_stages in metrics.items():
            words = f"{name.replace('_', ' ')} by stage of the plan, see help(headrace.Stats)"
            values = [({"stage": stage, **labels}, total) for stage, total in of_stages.items()]
            lines += _metric(f"headrace_stage_{name}_total", words, values)
        words = "seconds that the training loop waited for batches"
        lines += _metric("headrace_waited_seconds_total", words, [(labels, self.waited)])
        return in_utf8("\n".join([*lines, ""]))

    def _totals(self) -> Iterator[tuple[str, str, float]]:
        return ((stage, name, total) for stage, totals in self.stages.items() for name, total in totals.items())

    def total(self, counter: str) -> float:
        """Return the sum of a counter over all stages, 0 if none counts it."""
        return sum(totals.get(counter, 0) for totals in self.stages.values())

    def __getitem__(self, stage: str) -> Mapping[str, float]:
        if stage not in self.stages:
            advice = "no stage has run, take a batch of the loader first"
            raise UnknownKeyError("loader.stats()", stage, self.stages, advice)
        return Named(f"loader.stats()[{stage!r}]", self.stages[stage])

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
        rates = ", ".join(_rate(name, rate) for name, rate in self.rates.items())
        last = f"{self.waited:.2f} s of waiting, {self.worked:.2f} s of work; {self.verdict}"
        return printable("\n".join([*lines, *([rates] if rates else []), last]))


class Counters:
    """What a loader keeps to make stats of: totals of the stages that run."""

    def __init__(self) -> None:
        self.waited = self.worked = 0.0
        self._lowered: dict[str, dict[str, float]] = {}
        self._origins: dict[str, str] = {}

    def add(self, records: tuple[StageRecord, ...], waited: float, worked: float) -> None:
        """Add what happened to one batch, for which the training loop waited, after it had worked, some seconds."""
        self.waited += waited
        self.worked += worked
        for record in records:
            totals = self._lowered.get(record.stage)
            if totals is None:
                self._origins[record.stage] = record.origin
                totals = self._lowered[record.stage] = {"batches": 0, "seconds": 0.0}
            totals["batches"] += 1
            totals["seconds"] += record.seconds
            for name, count in record.counts.items():
                totals[name] = totals.get(name, 0) + count

    def stats(self) -> Stats:
        """Return the totals as they are now."""
        # Copied at once, since the thread of the training loop may add to them meanwhile.
        lowered = {name: dict(totals) for name, totals in list(self._lowered.items())}
        stages: dict[str, dict[str, float]] = {}
        for stage, totals in lowered.items():
            whole = stages.setdefault(self._origins[stage], {})
            for name, total in totals.items():
                # Each batch goes through all that was made of a stage, and is still one.
                whole[name] = total if name == "batches" else whole.get(name, 0) + total
        by_stage, by_lowered = Named("loader.stats().stages", stages), Named("loader.stats().lowered", lowered)
        return Stats(by_stage, self.waited, by_lowered, self.worked)


def _metric(name: str, words: str, values: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    """Return the lines of a counter: what it is, and a line for each of its values by labels."""
    head = [f"# HELP {name} {words}", f"# TYPE {name} counter"]
    return [*head, *(f"{name}{_labels(labels)} {value!r}" for labels, value in values)]


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels as Prometheus writes them."""
    escape = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{str(value).translate(escape)}"' for name, value in labels.items()) + "}"


def _rate(name: str, rate: float) -> str:
    return f"{rate / 1e9:.2f} GB/s" if name == "bytes" else f"{rate:,.0f} {name}/s"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


#: Records that are kept, of the most recent batches: about 4 MB.
MOST_RECORDS = 20_000


class Trace:
    """The stage records of a loader's most recent batches, and when they were handed out."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, tuple[StageRecord, ...], float, float]] = deque()
        self._num_records = 0
        self._threads: dict[int, str] = {}
        self._loop = 0

    def add(self, work: Work, waited: float) -> None:
        """Remember what happened to a batch that was handed out just now, for which the loop waited some seconds."""
        records = work.records
        self._batches.append((work.epoch, work.index, records, time.perf_counter(), waited))
        self._num_records += len(records)
        for record in records:
            if record.thread not in self._threads:
                self._name_threads()
        while self._num_records > MOST_RECORDS:
            self._num_records -= len(self._batches.popleft()[2])

    def _name_threads(self) -> None:
        """Note the names of all threads that there are: those of an iteration end with it."""
        self._loop = threading.get_ident()
        self._threads |= {one.ident: one.name for one in threading.enumerate() if one.ident is not None}

    def write(self, path: str | Path, rank: int, world_size: int) -> Path:
        """Write the timeline of these batches."""
        from headrace.pipeline.run.timeline import HandedOut, Timeline

        batches = [HandedOut(*batch) for batch in tuple(self._batches)]
        ran = {record.thread for batch in batches for record in batch.records}
        names = {thread: name for thread, name in self._threads.items() if thread in ran}
        return Timeline(batches, names | {self._loop: "training loop"}, self._loop, rank, world_size).write(path)
