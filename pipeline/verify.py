"""The legal language of plans, checked before the first pass and after each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.pipeline.channel import Comm
from headrace.pipeline.errors import PlanError
from headrace.pipeline.graph_shard import GraphShard
from headrace.pipeline.partition import Partition
from headrace.pipeline.plan import render, stages_of
from headrace.pipeline.sharded_feature import ShardedFeature
from headrace.pipeline.stage import MacroStage, RunSettings, SourceStage, Stage
from headrace.pipeline.stages.checks import check_weights_unchanged
from headrace.pipeline.stages.compact import Compact
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.exchange_ids import ExchangeIds
from headrace.pipeline.stages.exchange_rows import ExchangeRows
from headrace.pipeline.stages.fetch_and_exchange import FetchAndExchange
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.fused import SampleFused
from headrace.pipeline.stages.hop import HopStage
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.sample_hop_together import SampleHopTogether
from headrace.pipeline.stages.sampler import Sampler
from headrace.pipeline.stages.transform import Transform


def verify(plan: Stage, *, expanded: bool = False) -> None:
    """Check that a plan is legal.

    Parameters
    ----------
    plan
        The plan.
    expanded
        Whether macro stages must be gone.

    Raises
    ------
    PlanError
        Naming the rule that is broken and the stage that breaks it, with the plan.
    """
    stages = stages_of(plan)
    seen = _Seen()
    for stage in stages:
        problem = _problem(stage, seen, expanded=expanded)
        if problem is not None:
            raise PlanError(f"{stage.verb} cannot stand here: {problem}. The plan is\n{render(plan, '  ')}")
        seen.add(stage)
    if "hop" in seen.written:
        raise PlanError(
            f"{stages[-1].verb} cannot end a plan: its hop is not compacted. The plan is\n{render(plan, '  ')}"
        )


@dataclass
class _Seen:
    """What the rules ask of the stages before one, kept up stage by stage: plans of many hops are checked often."""

    source: Stage | None = None
    last: Stage | None = None
    written: set[str] = field(default_factory=set)
    hops: int = 0
    left_host: bool = False
    converted: Stage | None = None
    fetched: set[tuple[str, str]] = field(default_factory=set)

    def add(self, stage: Stage) -> None:
        """Go past a stage."""
        self.source = stage if self.source is None else self.source
        self.last = stage
        self.written |= stage.writes
        if "hop" in stage.reads:
            self.written.discard("hop")
        self.hops += stage.num_hops if isinstance(stage, Sampler) else isinstance(stage, HopStage)
        self.left_host |= isinstance(stage, CopyTo) and stage.leaves_host
        self.fetched |= _fetched(stage)
        self.converted = stage if self.converted is None and stage.converts else self.converted


def _problem(stage: Stage, before: _Seen, *, expanded: bool) -> str | None:
    """Return what is wrong with a stage at its place, or None."""
    written = before.written
    if (before.source is None) != isinstance(stage, SourceStage):
        return "a plan begins with a source such as ItemSampler, and has no second one"
    if before.converted is not None and not stage.takes_converted:
        return (
            f"behind {before.converted.verb} a batch is an object of another library: put this stage before it; only "
            "prefetch and copy_to may follow"
        )
    if expanded and isinstance(stage, MacroStage):
        return "macro stages must be expanded before this point"
    if "hop" in written and "hop" not in stage.reads:
        return "a sampled hop must be compacted by the very next stage"
    if stage.reads - written:
        return f"it reads {', '.join(sorted(stage.reads - written))}, which no stage before it writes"
    if isinstance(stage, Sampler) and before.hops != (stage.first_layer if isinstance(stage, SampleFused) else 0):
        return "a plan has one sampler: give that one more hops instead"
    # Features are rows of the nodes, edges and seeds that the batch had when they were read.
    fetched = set() if before.source is None else written - before.source.writes
    for changed, feature, what in (
        ("n_id", "node", "node features"),
        ("blocks", "edge", "edge features"),
        ("seeds", "y", "labels"),
    ):
        if changed in stage.writes and feature in fetched and not _returns_ids(stage):
            return f"it changes {changed}, for which {what} were fetched before: fetch them behind"
    again = sorted(_fetched(stage) & before.fetched)
    if again:
        domain, name = again[0]
        return (
            f"it fetches {domain} feature {name!r}, which a stage before has fetched and would lose: fetch it once, "
            "and give features of two stores two names"
        )
    if stage.on_host and before.left_host:
        return "it works in CPU memory, but the batch was copied to a device before: copy it behind this stage"
    if isinstance(stage, HopStage) and stage.layer != before.hops:
        return f"hops must be numbered from the seeds outwards; this is hop {before.hops}"
    if isinstance(stage, Compact) and isinstance(before.last, HopStage):
        hop = before.last
        if not (hop.graph is stage.graph and hop.expand == stage.expand and hop.edge_ids == stage.edge_ids):
            return "its graph, expand and edge_ids must be those of the hop before it"
    return None


def _fetched(stage: Stage) -> set[tuple[str, str]]:
    """Return the features that a stage fetches, each with its domain. Labels are checked with the data."""
    edge = stage.edge if isinstance(stage, FetchFeature) else ()
    node = stage.node if isinstance(stage, (FetchFeature, FetchAndExchange)) else ()
    return {*(("node", name) for name in node), *(("edge", name) for name in edge)}


def _returns_ids(stage: Stage) -> bool:
    """Whether a stage lends the ids of a batch to their owners, or gives them back with the rows."""
    return isinstance(stage, ExchangeRows) or (isinstance(stage, ExchangeIds) and not stage.renumber)


def check_data(plan: Stage) -> None:
    """Check that the data of the stages fit together; run once, before any batch is made.

    Raises
    ------
    InputError
        From the stage that does not fit.
    """
    stages = stages_of(plan)
    for position, stage in enumerate(stages):
        if position > 0:
            stage.check(stages[:position])
    check_weights_unchanged(stages)


def check_place(plan: Stage, settings: RunSettings) -> None:
    """Check that shards, owners and the channel are those of this rank, before any batch is made.

    Raises
    ------
    PlanError
        Saying what belongs to another rank, or to another number of ranks.
    """
    rank, world_size = settings.rank, settings.world_size
    comm = settings.comm
    if comm is not None and (comm.rank, comm.world_size) != (rank, world_size):
        raise PlanError(
            f"the channel is that of rank {comm.rank} of {comm.world_size}, the loader of rank {rank} of {world_size}; "
            "give comm alone"
        )
    stages = stages_of(plan)
    owners = [stage.partition for stage in stages if isinstance(stage, ExchangeIds) and stage.renumber]
    divided = [(stage, *found) for stage in stages for found in _owned_by(stage)]
    # Exchanges last: where a pass made them for data in shards, the data say better what is wrong.
    divided += [
        (stage, "the partition", stage.partition, None)
        for stage in stages
        if isinstance(stage, (ExchangeIds, SampleHopTogether))
    ]
    for stage, name, partition, part in divided:
        if partition.num_parts != world_size:
            raise PlanError(
                f"{stage.verb}: {name} has {partition.num_parts} parts, but there are {world_size} ranks; make a "
                "part for each rank"
            )
        if part not in (None, rank):
            raise PlanError(
                f"{stage.verb}: {name} is part {part}, but this is rank {rank}; cut it out after "
                "init_process_group, or name the part"
            )
        if owners and part is not None and partition is not owners[0] and partition != owners[0]:
            raise PlanError(
                f"{stage.verb}: {name} has other owners than those by which the ranks cooperate; give the loader "
                "the same partition, .loader(partition=...)"
            )


def _owned_by(stage: Stage) -> list[tuple[str, Partition, int | None]]:
    """Return what of a stage is divided among ranks: a name, the owners, and whose part it is, if anyone's."""
    found: list[tuple[str, Partition, int | None]] = []
    if isinstance(stage, ItemSampler) and stage.partition is not None:
        found.append(("the partition of the items", stage.partition, None))
    graph = getattr(stage, "graph", None)
    if isinstance(graph, GraphShard):
        found.append(("the shard of the graph", graph.partition, graph.part))
    if isinstance(stage, (FetchFeature, FetchAndExchange)):
        labels = stage.labels if isinstance(stage, FetchFeature) else None
        names = (*stage.node, *(() if labels is None else (labels,)))
        sources = {name: stage.store.node[name] for name in names}
        found += [
            (f"the shard of {name!r}", source.owners, source.part)
            for name, source in sources.items()
            if isinstance(source, ShardedFeature)
        ]
    return found


def check_same_plan(comm: Comm, digests: Mapping[str, str], final: Stage) -> None:
    """Check that all ranks run one plan on the same data, without which they would wait for each other forever.

    Parameters
    ----------
    comm
        A channel to all ranks.
    digests
        The fingerprint of the plan as the user wrote it.
    final
        The plan as it will run.

    Raises
    ------
    PlanError
        If they do not.
    """
    text = render(final)
    exchanges = [stage for stage in stages_of(final) if isinstance(stage, ExchangeIds) and stage.renumber]
    parts = {"stages": text, "owners": "".join(stage.partition.content_digest() for stage in exchanges)}
    # A function may know its rank, and copies of rows are each rank's own.
    parts |= {f"data of {name}": digest for name, digest in digests.items() if not name.startswith(Transform.verb)}
    differing = _ranks_that_differ(comm, str(parts))
    if not differing:
        return
    which = []
    if not _ranks_that_differ(comm, str(list(parts))):  # else not all would come to as many collectives
        which = [name for name, part in parts.items() if _ranks_that_differ(comm, part)]
    raise PlanError(
        f"the plan of rank {comm.rank} is not that of ranks {differing}, by its {', '.join(which) or 'stages'}: give "
        "all ranks the same items (each takes its share by itself), graph, features, owners, stages and passes, and "
        f"machines with as many cores, or machine=. Rank {comm.rank} has\n{text}"
    )


def _ranks_that_differ(comm: Comm, text: str) -> list[int]:
    """Return the ranks whose text is another one."""
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
    return [rank for rank, other in enumerate(comm.all_gather(digest)) if other != digest]
