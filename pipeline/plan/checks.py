"""Checks of stage parameters, when a plan is written, and of items, before the first batch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data import FeatureName, GraphView, Seen, TypeOffsets, as_number, is_one_of, whole_number
from headrace.pipeline.data.arrays import is_mask_of_integers, zeros_and_ones
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.data.digest import equal
from headrace.pipeline.data.feature_names import listed
from headrace.pipeline.data.graph_machinery import numbering_of
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.traits import Divided, Watched
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.wanted import Wanted

if TYPE_CHECKING:
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.storage.sharded_feature import ShardedFeature

LARGEST_COUNT = (1 << 31) - 1
MOST_PICKS = 1 << 62

#: The largest number of steps of all walks from one node: a kernel call cannot be interrupted, so it is bounded.
MOST_STEPS = 1 << 20

#: Hops of a plan. Each is a layer of the model.
MOST_HOPS = 1 << 12


def check_name(stage: Stage) -> str:
    """Return the name of a stage of a user's class, or refuse a stage without one."""
    name = getattr(stage, "name", None)
    if isinstance(name, str) and name:
        return name
    kind = type(stage).__name__
    raise PlanError(
        f"expected {kind}.name to be the name of the stage in texts and checkpoints, got {name!r}; write name = "
        f"{kind.lower()!r} in the class, or give it a verb by hr.ext.verb"
    )


def check_graph(stage: str, graph: object, *, with_types: bool = False) -> None:
    """Refuse a subject that is not a graph, or a graph whose types would be ignored."""
    if not isinstance(graph, GraphView):
        raise InputError(f"{stage}: expected an hr.Graph, got {type(graph).__name__}; {_how_to_make_it(graph)}")
    if graph.is_typed and not with_types:
        raise InputError(
            f"{stage}: expected a graph without types, got {graph!r}; {stage} reads no types. To sample it as "
            "if all nodes and edges were of one type, pass graph.untyped(), and items as global ids: "
            "graph.node_types.global_ids(name, ids)"
        )


def _how_to_make_it(graph: object) -> str:
    """Return what to write for a graph of another library, by what it has: none of them is imported for this."""
    if hasattr(graph, "holders_indptr"):  # an EdgePart
        return "plans do not read parts that are cut by edges yet: cut the data set by its nodes, hr.Partition"
    for sign, source in (("edge_index", "pyg"), ("edge_items", "pyg"), ("canonical_etypes", "dgl"), ("tocoo", "scipy")):
        if hasattr(graph, sign):
            return f"pass hr.Graph.from_{source}(...) of it, made once before the plan"
    return "make one of the edges, hr.Graph.from_coo(src, dst, num_nodes=...)"


def batches_of(stage: SourceStage, settings: RunSettings) -> BatchSource:
    """Return the object that draws the batches of a source; that of a user's class is checked.

    Raises
    ------
    PlanError
        If it is none.
    """
    source = stage.source(settings)
    if is_of_headrace(source):
        return source
    from headrace.pipeline.plan.users_batches import UsersBatches  # loaded where there is one

    return UsersBatches(stage, source, settings.world_size)


def graphs_of(stages: Iterable[Stage]) -> list[tuple[str, GraphView]]:
    """Return the graphs that stages read, in order, each with the verb of its stage."""
    subjects = [(stage.origin.name, getattr(stage, "graph", None)) for stage in stages]
    return [(verb, subject) for verb, subject in subjects if isinstance(subject, GraphView)]


def shard_of_rows(source: object) -> ShardedFeature | None:
    """Return a source of features if it is a shard, otherwise None."""
    if "headrace.pipeline.storage.sharded_feature" not in sys.modules:
        return None
    from headrace.pipeline.storage.quantized_feature import QuantizedFeature
    from headrace.pipeline.storage.sharded_feature import ShardedFeature

    if isinstance(source, QuantizedFeature):
        source = source.codes
    return source if isinstance(source, ShardedFeature) else None


def graphs_of_edges(stages: Iterable[Stage]) -> list[GraphView]:
    """Return the graphs with the edges of batches, each once; negatives may be drawn from a graph with other edges."""
    finders = [stage for stage in stages if stage.num_hops or "blocks" in stage.writes]
    return list({id(graph): graph for _, graph in graphs_of(finders)}.values())


def divided_features(wanted: Wanted) -> tuple[Divided, ...]:
    """Return the features in shards."""
    return tuple(
        Divided(f"the shard of {name!r}", shard.owners, shard.part)
        for (_, name), source in zip(wanted.features, wanted.sources(), strict=True)
        if (shard := shard_of_rows(source)) is not None
    )


def check_shards_of_types(store: FeatureStore, names: Iterable[FeatureName], types: TypeOffsets) -> None:
    """Refuse features of a type in shards whose owners are not those of the nodes of the type."""
    for name in names:
        source = shard_of_rows(store.node[name])
        if isinstance(name, str) or source is None or source.partition.num_parts == 1:
            continue
        nodes = types.id_range(name[0])
        if source.nodes != nodes:
            raise InputError(
                f"fetch_feature: expected the shard of {name!r} to have the owners of nodes {nodes.start} to "
                f"{nodes.stop - 1}, which are of the type {name[0]!r}, got those of nodes {source.nodes.start} to "
                f"{source.nodes.stop - 1}; cut it by partition.of_type(graph.node_types, {name[0]!r})"
            )


def check_shards_of_edges(store: FeatureStore, names: Iterable[FeatureName], types: TypeOffsets) -> None:
    """Refuse features of edges in shards that were cut as nodes are, or by the edges of another type."""
    for name in names:
        source = shard_of_rows(store.edge[name])
        if source is None:
            continue
        if source.edges is None:
            raise InputError(
                f"fetch_feature: expected the shard of edge feature {name!r} to have the edges of a part, got one by "
                f"{source.partition!r}; make it by hr.ShardedFeature.of(rows, shard.edges), where shard is "
                "graph.shard(partition)"
            )
        edges = range(types.num_ids) if isinstance(name, str) else types.id_range(name[0])
        if source.nodes != edges:
            raise InputError(
                f"fetch_feature: expected the shard of {name!r} to have rows of edges {edges.start} to "
                f"{edges.stop - 1}, got those of edges {source.nodes.start} to {source.nodes.stop - 1}; cut it by "
                "shard.edges, or by shard.edges.of_type(graph.edge_types, name)"
            )


def tables_of(stages: Iterable[Stage]) -> tuple[Seen, ...]:
    """Return the arrays of users that stages have tables of, each once."""
    return tuple({id(one): one for stage in stages for one in stage.tables_of()}.values())


def check_expand(stage: str, expand: str) -> None:
    """Refuse a hop rule that does not exist."""
    if not is_one_of(expand, ("all", "new")):
        raise InputError(f"{stage}: expected expand to be 'all' or 'new', got {expand!r}")


def check_edge_ids(stage: str, graph: GraphView, edge_ids: bool) -> None:
    """Refuse to omit edge ids if they determine the types of edges."""
    if graph.is_typed and not edge_ids:
        raise InputError(f"{stage}: expected edge_ids=True for a graph with types, which are known by them, got False")


def watched_features(wanted: Wanted) -> tuple[Watched, ...]:
    """Return features as memory that a training loop may write."""
    readers = [(feature, wanted.source(feature).version_reader()) for feature in wanted.features]
    return tuple(
        Watched(f"{domain} feature {listed(name)}", reader) for (domain, name), reader in readers if reader is not None
    )


def check_weight(stage: str, graph: GraphView, weight: str | None) -> None:
    """Refuse an edge attribute that cannot be sampling weights."""
    if weight is not None:
        if not isinstance(weight, str):
            raise InputError(
                f"{stage}: expected weight to be the name of an edge attribute, got {type(weight).__name__}; give the "
                'numbers to the graph, edge_attrs={"weight": ...}, and pass weight="weight"'
            )
        try:
            graph.edge_weights(weight)
        except InputError as error:
            raise InputError(f"{stage}: {error}") from error


def check_items_fit(stage: Stage, before: Sequence[Stage]) -> None:
    """Refuse items that are not nodes of the graph of a stage, and a mask or clusters of another number of nodes.

    A stage that reads no field of the batch draws seeds of its own.
    """
    graph = getattr(stage, "graph", None)
    if not isinstance(graph, GraphView) or not stage.reads:
        return
    source = before[0] if isinstance(before[0], SourceStage) else None
    if source is not None and source.num_nodes not in (None, graph.num_nodes):
        raise InputError(
            f"{stage.origin.name}: expected {source.origin.name} to be of the graph's {graph.num_nodes} nodes, got one "
            f"of {source.num_nodes}; make it, or its partition, of this graph"
        )
    if source is not None and source.mask_size not in (None, graph.num_nodes):
        raise InputError(
            f"{stage.origin.name}: expected a mask of items for the graph's {graph.num_nodes} nodes, got one of "
            f"{source.mask_size}; give the mask of this graph, or ids: mask.nonzero().squeeze(1)"
        )
    of_graph, of_items = numbering_of(graph), getattr(source, "items", None)
    if isinstance(of_items, ItemSet) and None not in (of_graph, of_items.numbering) and of_graph != of_items.numbering:
        raise InputError(
            f"{stage.origin.name}: expected items of the data set of the graph, got some of one whose nodes are "
            "numbered otherwise, as before it was converted again; take data.items of the data set whose graph this is"
        )
    largest = None if source is None else source.largest_id
    if largest is not None and largest >= graph.num_nodes:
        raise InputError(
            f"{stage.origin.name}: item {largest} is not a node of the graph, which has "
            f"{graph.num_nodes} nodes (ids 0..{graph.num_nodes - 1}); do the items index another graph?"
        )
    ids = None
    if source is not None and largest in (0, 1) and not (source.gives_labels or source.seed_times is not None):
        ids = source.all_seeds()
    if ids is not None and is_mask_of_integers(ids, graph.num_nodes):
        raise InputError(
            f"{stage.origin.name}: expected items to be ids or a boolean mask, got {zeros_and_ones(graph.num_nodes)}"
        )


def check_pairs_come(stage: str, before: Sequence[Stage]) -> None:
    """Refuse a stage for pairs if seeds are known not to be pairs, or if it follows a sampler."""
    source = before[0]
    width = source.nodes_per_seed if isinstance(source, SourceStage) else None
    if width not in (None, 2):
        came = "nodes" if width == 1 else f"{width} nodes each"
        raise InputError(
            f"{stage}: expected seeds that are pairs, int64[num_pairs, 2], got {came}; give the source pairs, "
            "ItemSampler(pairs)"
        )
    if any(one.num_hops for one in before):
        raise PlanError(f"{stage}: expected a place ahead of the sampler, got one behind it; chain it before")


def counts_by_hop(stage: str, name: str, counts: Iterable[int]) -> tuple[int, ...]:
    """Return the fanouts as integers of at least -1, one or more, or refuse them."""
    expected = f"{stage}: expected {name}s to list one number per hop, the hop next to the seeds first"
    # Sets have no order, and iterating a dictionary would yield its keys.
    no_list = isinstance(counts, str | AbstractSet | Mapping) or not isinstance(counts, Iterable)
    if no_list or getattr(counts, "ndim", 1) != 1:
        raise InputError(f"{expected}, got {counts!r}")
    listed = list(counts)
    if any(isinstance(count, (list, tuple, dict)) for count in listed):
        raise InputError(f"{expected}, got {listed}")
    if not 0 < len(listed) <= MOST_HOPS:
        came = f"{len(listed)} numbers, more than {MOST_HOPS}" if listed else "none"
        raise InputError(f"{expected}, got {came}")
    what = f"{stage}: a {name} (-1 takes all)"
    return tuple(whole_number(count, what, -1, InputError, MOST_PICKS) for count in listed)


def make_positive(stage: Stage, *names: str, most: int = LARGEST_COUNT) -> None:
    """Turn the named parameters into integers of at least 1 and at most `most`, or refuse them."""
    for name in names:
        value = whole_number(getattr(stage, name), f"{stage.name}: {name}", 1, InputError, most)
        object.__setattr__(stage, name, value)


def check_steps(stage: str, num_walks: int, walk_length: int) -> None:
    """Refuse walks from one node that take too many steps together."""
    if num_walks * walk_length > MOST_STEPS:
        raise InputError(
            f"{stage}: expected num_walks * walk_length to be at most {MOST_STEPS:,}, got {num_walks:,} * "
            f"{walk_length:,}; lower one of them"
        )


def check_flags(stage: Stage, *names: str) -> None:
    """Refuse a switch that is neither True nor False."""
    for name in names:
        value = getattr(stage, name)
        if not isinstance(value, bool):
            raise InputError(f"{stage.name}: expected {name} to be True or False, got {value!r}")


def check_probability(stage: str, name: str, value: object) -> float:
    """Return a probability below 1 as an int or a float, or refuse it."""
    number = as_number(value)
    if number is None or not 0 <= number < 1:
        raise InputError(f"{stage}: expected {name} to be a probability in [0, 1), got {value!r}")
    return number


def check_partition_fits(partition: Partition, sampler: str, graph: GraphView) -> None:
    """Refuse a partition of the nodes of another graph."""
    if graph.num_nodes != partition.num_nodes:
        raise PlanError(
            f"{sampler}: expected a partition of the graph's {graph.num_nodes} nodes, got one of "
            f"{partition.num_nodes}; make the partition for this graph"
        )


def check_shares_edges(partition: EdgePartition, sampler: str, graph: GraphView) -> None:
    """Refuse a partition of the edges of another graph."""
    whole = partition.graph
    alike = graph is whole or (equal(graph.indptr, whole.indptr) and equal(graph.indices, whole.indices))
    if not alike:
        raise PlanError(
            f"{sampler}: expected a partition of the edges of {graph!r}, got one of {whole!r}; make it for this graph, "
            "hr.EdgePartition.grid(graph, num_parts)"
        )
