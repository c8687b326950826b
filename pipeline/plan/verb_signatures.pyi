"""The verbs of plans, for editors and type checkers; written by `make stubs` from the stages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName, LabelNames
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Converted, Plan
from headrace.pipeline.plan.rules import Pass
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.storage.features import FeatureStore

FeatureNames: TypeAlias = str | Sequence[FeatureName] | Mapping[Any, str | Sequence[str]]
CountsByHop: TypeAlias = Sequence[SupportsIndex | Mapping[Any, SupportsIndex]]


class Verbs:

    def copy_to(
        self,
        device: str | torch.device,
    ) -> Plan:
        """Copy every tensor of the batch to a device.

        Parameters
        ----------
        device
            Anything ``torch.device`` takes, for example ``"cuda"`` or ``"cuda:1"``.

        Raises
        ------
        PlanError
            If torch does not know the name; when the loader is made, if the device cannot be used.
        """

    def exclude_seed_edges(
        self,
        *,
        reverse: bool | Mapping[Any, Any] = False,
        per: Literal["batch", "seed"] = "batch",
        by: Literal["ends", "edge_id"] = "ends",
    ) -> Plan:
        """Leave the edges that the model should predict out of the sampler that follows.

        A model that predicts edge u -> v must not find that edge in the neighbourhood of v, nor its reverse in that of u.
        All hops sample the graph without the edges between the positive pairs of the batch, including parallel edges; edges
        between negative pairs stay. Fanouts, probabilities and weights are those of the graph without the excluded edges.
        Pairs need not have an edge. The stage precedes `sample_neighbor`, `sample_layer_neighbor`, `sample_ladies`,
        `sample_in_subgraph`, `sample_shadow` or `induce_subgraph`. Ranks that share a batch leave out the edges of all its
        pairs.

        Parameters
        ----------
        reverse
            False (default): leave out the edges u -> v. True: leave out the edges v -> u, too, for graphs with every edge
            in both directions. In a graph with types, both apply to the edges of all types. A dictionary ``{edge_type:
            reverse_type}`` leaves out the edges u -> v of its keys, which must include the seeds' own type, and the edges v
            -> u of its values. Edges of other types between the pairs stay: a view that a purchase follows tells the model
            of the purchase. Take True, unless such edges are known when the model predicts. With ``by="edge_id"`` pass
            int64[num_edges]: for each edge the id of its reverse, -1 for none. With ``by="edge_id"`` and a dictionary, the
            reverse of an edge has the same number within the other type. With ``by="edge_id"`` True is refused, because it
            does not identify one of several edges v -> u.
        per
            ``"batch"`` (default): the edges of all pairs of the batch are left out for all its seeds, which share their
            neighbourhood. ``"seed"``: the edges of a pair are left out only in its own tree. It then finds the edges of the
            other pairs of the batch, as in a prediction for that pair alone. The trees of negatives leave out the edges of
            their positive pair, too: otherwise a model could tell negatives by an edge that positive pairs never find.
            "seed" needs a sampler with ``disjoint=True`` or ``time=``, or `sample_shadow`. Subgraphs over a graph in shards
            take it only with ``cooperative=True``.
        by
            ``"ends"`` (default): leave out all edges between the ends of a pair, such as earlier purchases of the same
            thing. ``"edge_id"``: leave out only the edge that the item is, ``ItemSampler(pairs, edge_ids=ids)``; other
            edges between the same nodes stay. With `time`, ``strictly_before=True`` of the sampler is the alternative: it
            leaves out all edges of the pair's own time. To keep repeats of that time, use ``"edge_id"``.

        Raises
        ------
        InputError
            For an invalid `reverse`, `per` or `by`. When the loader is made: for types that the graph does not have, seeds
            of a type that is not a key, items that are not the edges of their ids, and reverses that do not lead back.
        PlanError
            If no sampler follows that can leave out edges; if the seeds are not pairs; if `reverse` is False and
            `make_bidirectional` follows, which would add an excluded edge again; with ``per="seed"`` for a sampler without
            trees; with ``by="edge_id"`` for items without `edge_ids`.

        Examples
        --------
        >>> import headrace as hr, torch
        >>> bought = torch.tensor([[0, 0, 1], [2, 2, 2]])  # twice by 0
        >>> graph = hr.Graph.from_coo(*bought, num_nodes=3)
        >>> items = hr.ItemSampler(bought.t()[:2], edge_ids=[0, 1], batch_size=1)
        >>> plan = items.exclude_seed_edges(by="edge_id").sample_neighbor(graph, [-1])
        >>> [sorted(batch.e_id.tolist()) for batch in plan.loader()]
        [[1, 2], [0, 2]]
        """

    def fetch_feature(
        self,
        store: FeatureStore,
        *,
        node: FeatureNames = (),
        edge: FeatureNames = (),
        labels: LabelNames | None = None,
        dtype: torch.dtype | None = None,
    ) -> Plan:
        """Read feature rows for the nodes (``batch.node``, ``batch.x``), edges (``batch.edge``) and seeds (``batch.y``).

        Parameters
        ----------
        store
            Where the features are.
        node
            Names of node features to read for every node of the batch, in the order of ``batch.n_id``. In a graph with
            types, names by node type, ``node={"paper": ["x"], "author": ["x"]}``: ``batch.node["paper", "x"]`` has a row
            for each paper of the batch, in the order of ``batch.n_id``.
        edge
            Names of edge features to read for every sampled edge, one tensor per block, with a row for each edge of the
            block. The rows of the feature itself are in input edge order. In a graph with types, names by edge type, with a
            row for each edge of ``block.relation(edge_type)``.
        labels
            Name of the node feature to read for the seeds only, into ``batch.y``. It is refused if the items have labels.
            Labels that are fetched by ``node=["y"]`` are in ``batch.node["y"]``, for all nodes, and ``batch.y`` is None.
            If seeds are nodes of one type, ``labels={"paper": "y"}``. For seeds of several types, ``labels={"paper": "y",
            "author": "z"}``: ``batch.y`` is then a dictionary, and ``batch.y["paper"]`` has a row for each seed that is a
            paper, in the order of ``batch.seeds``.
        dtype
            The dtype of all rows but labels: float16, bfloat16, float32 or float64. Features may be stored in fewer bytes,
            as float16 or bfloat16, or as codes with a scale (`hr.QuantizedFeature`). Rows are decoded as the batch is made:
            files, caches, tiers and exchanges between ranks hold the stored bytes. By default rows are as stored.

        Raises
        ------
        InputError
            For a name that the store does not have (the message lists the names of the store), or no name at all; for a
            dtype that cannot hold a feature, and for codes without a dtype.
        PlanError
            If batches already have labels, and ``labels`` names a feature.
        """

    def induce_subgraph(
        self,
        graph: GraphView,
        *,
        edge_ids: bool = True,
    ) -> Plan:
        """Replace the sampled edges by all edges of the graph among the nodes of the batch.

        The batch then has *one* square block, which all layers of a model use: ``num_src == num_dst``. Nodes keep their
        order, seeds first. A model may have more layers than the sampler has hops. ``num_sampled_nodes`` has two counts,
        the seeds and all other nodes; ``num_sampled_edges`` has one count, all edges.

        Ranks that make batches together (``cooperative=True``) find the subgraph together. Each rank has the in-edges of
        the nodes that it owns: ``num_dst`` counts these nodes, ``num_src`` also the sources of other ranks. In a model
        `hr.cooperative` exchanges rows; or call ``batch.exchange(0, h)`` before each layer except the first, and
        ``batch.exchange(1, h)`` at the end.

        If each rank has its own share of the seeds, the sampler must grow trees (``disjoint=True``, `sample_shadow`):
        otherwise edges between nodes of two ranks would be missing.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([1, 2, 0], [0, 1, 2], num_nodes=3)
        >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").induce_subgraph(graph)
        >>> next(iter(plan.loader())).blocks[0].edge_index.tolist()
        [[1, 2, 0], [0, 1, 2]]

        Parameters
        ----------
        graph
            The graph that was sampled.
        edge_ids
            Whether the block carries the original ids of its edges.

        Raises
        ------
        InputError
            For a subject that is not a graph, or items that are not in it.
        PlanError
            If several ranks each have a share of a batch and the sampler grows no trees, or if the sampler is temporal,
            because the subgraph would ignore times.
        """

    def make_bidirectional(
        self,
    ) -> Plan:
        """Add the reverse of each sampled edge, so that messages flow in both directions.

        The batch then has *one* square block, which all layers of a model use. Of parallel edges of one type, one remains.
        An added edge has the id, and so the features, of the sampled edge that it reverses. Importance weights are dropped,
        because they describe the sampled in-neighbourhoods.

        In a graph with types a reversed edge keeps its type. So each edge type must connect a node type with itself: the
        reverse of an edge from users to movies would have another type, with its own edges and features.
        `headrace.pyg.NeighborLoader` with ``subgraph_type="bidirectional"`` gives reversed edges the opposite type, and
        then returns no edge ids.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([1, 2], [0, 1], num_nodes=3)
        >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").make_bidirectional()
        >>> block = next(iter(plan.loader())).blocks[0]
        >>> block.edge_index.tolist(), block.edge_ids.tolist()
        ([[1, 0, 2, 1], [0, 1, 1, 2]], [0, 0, 1, 1])

        Raises
        ------
        PlanError
            If the sampled graph has an edge type between two node types.
        """

    def pad(
        self,
        num_nodes: Sequence[SupportsIndex] | Mapping[Any, Sequence[SupportsIndex]] | None = None,
        num_edges: Sequence[SupportsIndex] | Mapping[Any, Sequence[SupportsIndex]] | None = None,
        *,
        epochs: SupportsIndex = 1,
        shapes: SupportsIndex | None = None,
    ) -> Plan:
        """Pad seeds, nodes and edges of each hop to sizes that batches share, for ``torch.compile`` and CUDA graphs.

        Without `num_nodes` and `num_edges` the sizes are those of the largest batch. A pass over the first epoch finds them
        before the first batch, by sampling without features; a terminal or a notebook shows its progress. A ``transform``
        before `pad`, which may change sizes, runs in that pass too, on the features that it may read. The last batch, and
        all others with fewer seeds, have a second, smaller shape: a compiled model compiles at most twice. The pass is
        exact for `epochs` epochs, because a batch depends on the seed, the epoch and its index alone. A short batch of a
        later epoch that is larger than its shape has the other one; if a full batch is, its hops have 1.25 times the sizes,
        or a power of that, which compiles once more. ``loader.stats()`` counts such batches as ``larger_batches``.

        The batch behind it has the fields of a `MiniBatch`. Padding holds:

        ====================================================  ====================================================
        ``seeds``, ``item_index``                             -1
        ``n_id``, ``e_id``                                    -1, less the number of the type
        ``seed_index``                                        a row of the output of a model that is padding
        ``y``                                                 -100, which ``cross_entropy`` ignores; nan in floats
        ``node``, ``edge``                                    0
        ``blocks``                                            edges of weight 1 from padding to padding
        ====================================================  ====================================================

        Real seeds are the first; ``batch.seed_mask`` marks them. Nodes of each hop are followed by the padding of the hop,
        so that destinations are still the first sources: row i of the output still belongs to the i-th distinct seed.
        ``num_seeds``, ``num_sampled_nodes``, ``num_sampled_edges`` and ``num_global_seeds`` count real ones. In a graph
        with types, nodes and edges of each type have sizes of their own, so that ``block.relation(edge_type)`` has one
        shape.

        Outputs of seeds and gradients do not depend on the values of padding, in any bit, in layers of `hr.nn` and with a
        loss that ignores padded seeds; without padding, products over fewer rows may differ in the last bits. Other modules
        see padding as rows: use ``hr.nn.BatchNorm`` in place of torch's. For a loss that cannot ignore labels, take the
        first ``batch.num_seeds`` of ``out[batch.seed_index]`` and of ``batch.y``.

        Chain it behind the last fetch. Only ``transform``, ``prefetch``, ``copy_to`` and conversions may follow. Behind
        ``copy_to("cuda")`` the GPU pads, and the copy is smaller. Ranks that take shares of a batch all have the same
        shapes, for which each samples the shares of all.

        >>> import headrace as hr, torch
        >>> graph = hr.Graph.from_coo([1, 2, 3, 4], [0, 0, 1, 2], num_nodes=5)
        >>> loader = hr.ItemSampler(4, batch_size=2).sample_neighbor(graph, [2]).pad().loader()
        >>> for batch in loader:
        ...     print(batch.seeds.tolist(), batch.n_id.tolist(), batch.blocks)
        [0, 1, -1] [0, 1, -1, 2, 3, -1] (PaddedBlock(6 -> 3 nodes, 3 edges),)
        [2, 3, -1] [2, 3, -1, 4, -1, -1] (PaddedBlock(6 -> 3 nodes, 3 edges),)

        Parameters
        ----------
        num_nodes
            Sizes that you choose: distinct seeds, then the nodes that each hop finds first, as in ``num_sampled_nodes``,
            with one more of each than a batch has. Of a graph with types a dictionary with all node types, ``{"paper":
            [129, 600], "author": [1, 300]}``.
        num_edges
            The edges of each hop; of a graph with types a dictionary with all edge types. Chosen sizes hold for all
            batches; a larger batch has 1.25 times as many, as above.
        epochs
            The number of epochs, from the first, over which the sizes are exact.
        shapes
            The number of shapes, each with 1.25 times the rows of the next smaller; a batch has the smallest that it fits.
            Default: 4 if a hop takes all in-edges or seeds have trees, whose batches differ much in size, otherwise 1.

        Raises
        ------
        PlanError
            For `num_nodes` without `num_edges` or the reverse, and with `epochs`; when the loader is made, for chosen sizes
            that are not of the graph's types, for ranks that make batches together, and where the sizes of batches cannot
            be found beforehand: over a torchdata node, a graph in shards on several ranks, and ``items_per_rank=True``.
        InputError
            For sizes below 0; for labels of an unsigned dtype, which have no number that losses ignore.
        """

    def prefetch(
        self,
        workers: SupportsIndex = 1,
        depth: SupportsIndex = 2,
        *,
        eager: bool = True,
    ) -> Plan:
        """Make batches in background threads during the training steps; their order stays.

        Parameters
        ----------
        workers
            Background threads, each making whole batches; 0 makes them in the training loop's own thread.
        depth
            The largest number of batches that are being made or waiting, beyond the one in the training loop. This bounds
            the memory.
        eager
            Whether threads start with the epoch. Otherwise they start once the steps of the training loop take long enough
            for prefetching to pay off. Ranks that make batches together are always eager.

        Raises
        ------
        PlanError
            For workers that are not 0 to 4,096 or a depth that is not 1 to 1,048,576.
        """

    def sample_in_subgraph(
        self,
        graph: GraphView,
        *,
        num_hops: SupportsIndex = 1,
        expand: Literal["all", "new"] = "all",
        edge_ids: bool = True,
    ) -> Plan:
        """Take all in-edges, hop by hop: ``sample_neighbor`` with fanouts of -1.

        Parameters
        ----------
        graph
            The graph to take the edges from.
        num_hops
            The number of hops from the seeds; 1 (default) gives the subgraph of all edges that end at a seed.
        expand, edge_ids
            As for ``sample_neighbor``. With ``"all"`` blocks repeat edges, as layers need them; with ``"new"`` each edge is
            in one block only.

        Raises
        ------
        InputError
            For a number of hops below 1, a subject that is not a graph, or an unknown hop rule.
        """

    def sample_ladies(
        self,
        graph: GraphView,
        layer_sizes: CountsByHop,
        *,
        poisson: bool = False,
        layer_dependency: bool = False,
        weight: str | None = None,
        edge_ids: bool = True,
    ) -> Plan:
        """Draw a number of nodes per *layer*: LADIES (arXiv 1911.07323) and PLADIES (arXiv 2210.13339).

        The destinations of a hop are all nodes found so far. Each in-neighbour t has the score ``q_t = sum of P_ts ** 2``
        over the destinations s, with P_ts = 1 / in-degree of s (or the edge's share of the row's weights). Nodes are drawn
        by their scores, and *all* edges from them to the destinations are kept. Therefore the number of nodes of a batch is
        known beforehand, and a destination may have any number of edges, or none.

        ``Block.weight`` is P_ts / pi_t, where pi_t is the probability of t, scaled to average to 1 per destination. The
        plain mean of messages times these weights is the Hajek estimate of the mean (or weighted mean) over all in-edges;
        without edges, use 0. The scores depend on all nodes of the hop. Ranks that each sample a share of the batch draw
        `layer_sizes` each; with ``.loader(cooperative=True)`` they draw together.

        *Self terms.* Destinations are the first sources of a block, as always, so a layer has their own rows
        (``x[:num_dst]``) without a draw. Destinations have no other advantage: no self-loops are added, and an edge from
        one destination to another is kept only if its source was drawn. Otherwise the estimate would be biased.
        Destinations that are drawn count towards `layer_sizes`, so a layer adds at most that many new nodes. For P with
        self-loops, use a graph with self-loops.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        layer_sizes
            Nodes to draw, one number per hop. ``layer_sizes[0]`` is the hop next to the seeds; DGL and GraphBolt list them
            from the input side, so reverse such a list. -1 takes all in-neighbours.
        poisson
            False (default): LADIES, exactly that many nodes (if there are as many), one after the other, without
            replacement. The published estimate is biased; this one divides by probabilities that make it unbiased before
            scaling. True: PLADIES, each node independently with probability ``min(1, c * q_t)``; layer sizes are then
            expected numbers.
        layer_dependency
            Whether all hops share the random numbers, so that a node drawn in one hop is likely to be drawn in the next.
        weight
            Name of the edge attribute A, one number of at least 0 per edge, for P_ts = A_ts / sum of A over the in-edges of
            s. Edges of weight 0 are never kept. None (default): all edges have equal weight.
        edge_ids
            Whether blocks carry the original ids of their edges.

        Raises
        ------
        InputError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
            For layer sizes that are empty or below -1, or a subject that is not a graph.
        """

    def sample_layer_neighbor(
        self,
        graph: GraphView,
        fanouts: CountsByHop,
        *,
        weight: str | None = None,
        expand: Literal["all", "new"] = "all",
        edge_ids: bool = True,
        disjoint: bool = False,
        time: str | None = None,
        window: float | None = None,
        strictly_before: bool = False,
        exact: bool = True,
        importance: SupportsIndex | Literal["*"] = 0,
        layer_dependency: bool = False,
        batch_dependency: float = 1,
    ) -> Plan:
        """Sample in-neighbours with one random number per *source* node and hop: LABOR (arXiv 2210.13339).

        Nodes that share a neighbour agree on whether to draw it. Therefore a batch has fewer nodes than with
        ``sample_neighbor`` at the same fanouts, while each node alone has a uniform sample of the same size. Parallel edges
        have separate random numbers; the first batch checks once whether the graph has any.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        fanouts
            In-edges per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and GraphBolt
            list them from the input side, so reverse such a list. -1 takes all in-edges.
        exact
            True (default): each node gets exactly ``min(fanout, in-degree)`` in-edges, those with the smallest random
            numbers. False: Poisson sampling as in the paper, where ``fanout`` is the expected number. LABOR-1, ... and
            LABOR-* are always Poisson sampling.
        importance
            The number of rounds in which the nodes of a hop agree on the probabilities of their in-neighbours: 0 (default)
            is LABOR-0, 1 is LABOR-1, and so on to 1,000; ``"*"`` stops after a round that lowers the expected number of
            nodes by at most 0.01 % (LABOR-*).

            *Gains*: fewer nodes, so fewer feature rows, at the same variance of a mean over the sampled neighbours
            (published for ogbn-products, three layers of fanout 10: 166 thousand for LABOR-*, 237 thousand for LABOR-0, 513
            thousand for ``sample_neighbor``).

            *Costs*: more edges, because a node draws more than ``fanout`` of its in-edges if their probabilities differ.
            More time, because every round reads all in-edges of all nodes of the hop. A model must use ``Block.weight``,
            which is always present: the plain mean of weighted messages is the Hajek estimate; without edges, use 0. The
            probabilities depend on all nodes of the hop. Ranks that each sample a share of the batch agree within their own
            share only, so their nodes differ from those of one process. With ``cooperative=True`` all ranks agree, in 3
            rounds of communication for each round of importance.
        layer_dependency
            Whether all hops share the random numbers, so that a node keeps its neighbourhood from hop to hop. A batch then
            has still fewer nodes, but layers are dependent.
        batch_dependency
            Kappa, the number of batches over which the random numbers change (arXiv 2310.12403). 1 (default): new random
            numbers for every batch. With more, consecutive batches sample mostly the same neighbours of the nodes that they
            share, so a cache of feature rows misses less. ``math.inf``: the random numbers never change, in any batch or
            epoch. The law of each single batch does not depend on kappa, so sizes, bias and variance stay.

            *Costs*: batches that are less than 2 * kappa apart are dependent; with ``math.inf`` a node's neighbourhood is
            the same for the whole training. Sampling takes some 50 ns more per in-edge, except in each kappa-th batch,
            because it blends two random numbers. The random numbers change gradually within an epoch; a new epoch begins
            with new ones, so nearly all neighbours change at once. Trees refuse it: their random numbers depend on the
            position of their seed in the batch, which changes.
        weight
            Name of the edge attribute A to sample by, one number of at least 0 per edge. The target probability of edge t
            -> s is min(1, fanout * A_ts / sum of A over the in-edges of s). With ``Block.weight`` the plain mean is the
            Hajek estimate of the mean weighted by A. Edges of weight 0 are never drawn. None (default) samples uniformly.

            *Bias.* With ``exact=True`` that estimate is biased if fanouts are small or close to in-degrees and messages
            correlate with the weights. For messages proportional to the weights, the bias is about 0.2 standard deviations
            at 1 or at 10 of 20 in-edges, and 0.02 to 0.05 at 1 to 10 of 100. For messages independent of the weights there
            is none. ``sample_neighbor(..., weight=..., replace=True)`` has no bias at any fanout. Larger fanouts, with
            ``exact=False``, make the bias small.
        expand, edge_ids, disjoint, time, window, strictly_before
            As for ``sample_neighbor``. Trees share no random numbers: `importance` must be 0, and `batch_dependency` 1.

        Raises
        ------
        InputError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
            For fanouts that are empty or below -1, a subject that is not a graph, an unknown hop rule, an importance that
            is neither "*" nor an integer from 0 to 1,000, or a batch dependency that is neither an integer of at least 1
            nor ``math.inf``; in trees for any but 1.
        """

    def sample_neighbor(
        self,
        graph: GraphView,
        fanouts: CountsByHop,
        *,
        weight: str | None = None,
        expand: Literal["all", "new"] = "all",
        edge_ids: bool = True,
        disjoint: bool = False,
        time: str | None = None,
        window: float | None = None,
        strictly_before: bool = False,
        replace: bool = False,
        strategy: Literal["uniform", "last"] = "uniform",
    ) -> Plan:
        """Sample in-neighbours hop by hop, independently for each node (GraphSAGE, arXiv 1706.02216).

        Every k-subset of a node's in-edges is exactly equally likely: the random integers have no modulo bias.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        fanouts
            In-edges to draw per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
            GraphBolt list them from the input side, so reverse such a list. -1 takes all in-edges.
        replace
            Whether to draw with replacement. A fanout of -1 takes every in-edge once either way.
        weight
            Name of the edge attribute to sample by, one number of at least 0 per edge. Each draw has probabilities
            proportional to it; without replacement, edges are drawn one after the other. Edges of weight 0 are never drawn.
            None (default) samples uniformly. Weighted sampling without replacement gives no unbiased mean or weighted mean;
            use `sample_layer_neighbor`. The first batch makes tables of two bytes per edge, which the graph keeps.
        expand
            ``"all"`` (default): each hop samples for every node found so far, as layer-wise blocks need (DGL, GraphBolt).
            ``"new"``: each hop samples only for nodes that the previous hop found first, so all layers share one block
            (PyG, ``trim_to_layer``).
        edge_ids
            Whether blocks carry the original ids of their edges; without them sampling is a little faster.
        disjoint
            Whether each seed has its own tree. Trees share no nodes: a node in two trees has two entries, and
            `MiniBatch.slot` is the tree of each entry. Seeds are first, repeats included, one tree each; both ends of a
            pair share one tree. Draws of trees are independent.
        time
            Name of the times of edges, nodes, or both (edge attributes and node attributes of the graph). Each seed then
            has its own tree, which contains only edges no later than the seed. The time of an edge is the later of its own
            time and that of its source. The time of a seed is given by ``ItemSampler(items, time=...)``, or is that of its
            node. The first loader sorts rows by time, once, and copies the graph if they are not sorted; see
            `Graph.by_time`.

            *The seed's own time is included*: for a link at time t, the tree contains the edge of that link, which reveals
            its label. For links that are edges of the graph use ``strictly_before=True``; or, to keep other edges of that
            time, ``exclude_seed_edges(by="edge_id")``, which leaves out only the link's own edge.
        window
            With `time`, the length of the time window: edges are no earlier than the seed's time minus `window`.
        strictly_before
            With `time`: False (default) includes edges of the seed's own time; True only earlier edges, in all hops.
            Earlier edges between the same nodes stay; `exclude_seed_edges` by the ends of pairs would leave them out. A
            window ends at the seed's time in both cases.
        strategy
            With `time`: ``"uniform"`` (default) draws among the edges in the time window, by `weight` if given; ``"last"``
            takes the most recent ones. Among edges with the same time, those given last count as most recent.

        Raises
        ------
        InputError
            If there is no such edge attribute, or it holds negative, infinite or undefined values; if there are no times of
            this name, or they are not times.
            For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule; for a window,
            `strictly_before` or ``strategy="last"`` without times; for ``strategy="last"`` with a weight or replacement.
        """

    def sample_pinsage(
        self,
        graph: GraphView,
        num_neighbors: SupportsIndex,
        num_walks: SupportsIndex,
        walk_length: SupportsIndex,
        restart: float = 0.5,
        num_layers: SupportsIndex = 1,
        *,
        weight: str | None = None,
        expand: Literal["all", "new"] = "all",
    ) -> Plan:
        """Take the nodes that random walks visit most often as neighbours of their start (PinSAGE, arXiv 1806.01973).

        Walks step to uniform in-neighbours, against the direction of messages. ``Block.weight`` holds the visit counts,
        scaled so that they average to 1 per destination: a plain mean with these weights is the paper's importance pooling.
        The neighbours are not joined by edges of the graph, so blocks have no edge ids. A node is never its own neighbour.
        Among nodes visited equally often, those visited first are taken. A node without in-edges has no neighbours.

        Parameters
        ----------
        graph
            The graph to walk on. Every visited node counts, of any kind. If only items may be neighbours of items, walk on
            a graph of items.
        num_neighbors
            The largest number of neighbours per node.
        num_walks
            Walks from each node.
        walk_length
            Steps of a walk. All walks from a node together take at most 1,048,576.
        restart
            Probability, in [0, 1), that a step leads back to the walk's start.
        num_layers
            Hops. Each draws new walks, so a node may have other neighbours in another layer.
        weight
            Name of an edge attribute to walk by: an in-edge is taken in proportion to it. None (default) walks uniformly.
        expand
            As for ``sample_neighbor``.

        Raises
        ------
        InputError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
            For numbers below 1, a restart outside [0, 1), a subject that is not a graph, or an unknown hop rule.
        """

    def sample_saint(
        self,
        graph: GraphView,
        by: Literal["node", "edge", "walk"],
        *,
        budget: SupportsIndex | None = None,
        walk_length: SupportsIndex | None = None,
        num_samples: SupportsIndex | None = None,
        norms: bool = True,
        edge_ids: bool = True,
    ) -> Plan:
        """Train on the subgraph of drawn nodes (GraphSAINT, arXiv 1907.04931).

        The batch becomes the subgraph on the drawn nodes, with every edge of the graph between them, as *one* square block:
        ``num_src == num_dst``, and all layers of a model use it. Every node of the subgraph is then a seed: ``seeds`` are
        ``n_id``, ``labels=`` of ``fetch_feature`` reads their labels, and ``item_index`` is -1, because they are not items
        of the source.

        ``by`` names the draws of a batch, which depend on the source's seed, the epoch and the batch index:

        - "node": ``budget`` nodes, independently and with replacement, node u in proportion to the sum over its
          out-neighbours w of 1 / in-degree(w) ** 2, which is the squared norm of u's column in the row-normalised adjacency
          matrix. A node without out-edges is never drawn. Items of the source only give the number of batches.
        - "edge": the ends of ``budget`` edges, independently and with replacement, edge u -> v in proportion to 1 /
          in-degree(v). If every edge exists in both directions, this is the law of the paper, 1 / degree(u) + 1 /
          degree(v). Items only give the number of batches.
        - "walk": the nodes that walks visit, one from each distinct seed, of ``walk_length`` steps to uniform
          in-neighbours; a walk ends early at a node without in-edges. To train on every node, give the source all nodes,
          shuffled.

        With norms the batch has:

        - ``node["loss_weight"]``: float32[num_drawn]; ``(batch.node["loss_weight"] * losses).sum()`` estimates the mean
          loss over all nodes of the graph. If only some nodes are labelled, set the losses of the others to 0 and multiply
          by ``graph.num_nodes / num_labelled``. Do not divide by ``num_global_seeds``. Nodes that are never drawn count
          with a loss of 0; a warning states their number.
        - ``Block.weight``: the plain mean of messages times these weights is the paper's unbiased estimate of the mean over
          all in-neighbours, and a mean weighted by them is the Hajek estimate.

        Norms of nodes and edges have a closed form. Those of walks are counted on ``num_samples`` subgraphs before the
        first batch: the batches of epochs that training never reaches, so they are a pure function of the plan, too. The
        graph keeps them, in 8 bytes per edge. Nodes and edges in none of these subgraphs count as if they were in one; a
        warning states their number.

        Parameters
        ----------
        graph
            The graph to sample from.
        by
            "node", "edge" or "walk".
        budget
            Draws per batch, for "node" and "edge".
        walk_length
            Steps per walk, at most 1,048,576, for "walk".
        num_samples
            Subgraphs to draw for the norms of walks. None (default): 50 * num_nodes / (batch_size * (walk_length + 1)),
            rounded up, so that the walks visit each node about 50 times if the source's items are all nodes.
        norms
            Whether the batch has ``node["loss_weight"]`` and ``Block.weight``.
        edge_ids
            Whether the block carries the original ids of its edges.

        Raises
        ------
        InputError
            For a subject that is not a graph or has no edges, numbers below 1, options of other draws, items that are not
            in the graph, or `num_samples` without norms.
        PlanError
            If the source has labels, if several ranks would share a batch, or if norms of walks are requested and the
            source is not an ``ItemSampler``, whose batches can be drawn beforehand.
        """

    def sample_shadow(
        self,
        graph: GraphView,
        depth: SupportsIndex,
        fanout: SupportsIndex,
        *,
        replace: bool = False,
        edge_ids: bool = True,
    ) -> Plan:
        """Give each seed its own ego net: ShaDow's k-hop sampler (arXiv 2201.07858).

        Neighbours are sampled hop by hop from each seed, up to `fanout` for each node. The ego net has all edges of the
        graph among the nodes found. Ego nets share no nodes: a node in two of them has two entries. The batch is their
        union, *one* square block, for a model of any depth; ``batch.slot`` is the ego net of each entry of ``n_id``. The
        seeds are first, repeats included, so their output is ``out[: batch.num_seeds]``. Each rank finds the ego nets of
        its share of the seeds, or, with ``cooperative=True``, all ranks find all of them together.

        Parameters
        ----------
        graph
            The graph to sample from.
        depth
            Hops from the seed.
        fanout
            In-edges to draw for each node in each hop, in a graph with types for each edge type; -1 takes all.
        replace
            Whether to draw with replacement.
        edge_ids
            Whether the block carries the original ids of its edges.

        Raises
        ------
        InputError
            For a subject that is not a graph, a depth below 1, or a fanout below -1.
        PlanError
            If ranks share edges (`hr.EdgePartition`).
        """

    def sample_uniform_negative(
        self,
        graph: GraphView,
        ratio: float = 1,
        mode: Literal["binary", "triplet"] = "binary",
        *,
        corrupt: Literal["destination", "both"] = "destination",
        node_weight: ArrayLike | Tensor | str | None = None,
        source_weight: ArrayLike | Tensor | str | None = None,
        time: str | None = None,
        strictly_before: bool = False,
        reject: bool = False,
    ) -> Plan:
        """Draw new negative pairs for the positive pairs of each batch; the stage precedes the sampler.

        A negative has the source of a positive pair. Its destination is drawn uniformly and independently from all nodes of
        the type of the pair's destination. A negative may be an edge of the graph, which is rare in large graphs; with
        `reject` it never is. Draws are keyed by the seed, the batch and the position of the pair in it, so ranks that share
        a batch draw the same negatives as one process.

        The batch then has ``num_positives``, the number of positive pairs, and

        - mode "binary": the negative pairs follow the positive ones in ``seeds``, pair by pair, with -1 in ``item_index``.
          Labels ``y`` are 1 and 0, float32, if items have none. Negatives of items with labels have class 0; labels that
          begin at 0, over all ranks and when the loader is made, then increase by one, as in PyG. No other label may be 0.
          ``num_global_seeds`` counts negatives;
        - mode "triplet": ``seeds`` is int64[num_pairs, 2 + ratio]: source, positive destination, negative destinations;
          ``y`` and ``num_global_seeds`` stay.

        Parameters
        ----------
        graph
            The graph whose nodes are drawn, and with `reject` whose edges are not.
        ratio
            Negatives for each positive pair. In mode "binary" their number is rounded up for the whole batch: 0.5 gives 2
            for 3 pairs.
        mode
            See above.
        corrupt
            ``"destination"`` (default): draw destinations. ``"both"``: draw sources, too, as PyG does in mode "binary".
        node_weight
            The weights of nodes in the draw: None, equal weights; ``"degree"``, the in-degree, with `time` the in-degree at
            the time of the pair; or numbers of at least 0, [num_nodes].
        source_weight
            The weights of sources with ``corrupt="both"``: any of the above. None (default): as `node_weight`.
        time
            Name of the times of nodes: only nodes that are no later than the pair are drawn. Pairs must have times,
            ``ItemSampler(pairs, time=...)``, and for each pair there must be a node that is no later. With ``"degree"``,
            edges count if neither they nor their ends are later than the pair. Times of edges alone suffice then; they are
            sorted once, in 16 bytes per edge.
        strictly_before
            With `time`: True leaves out nodes of the pair's own time, and with ``"degree"`` edges of that time, such as the
            edge of the pair itself.
        reject
            Whether negatives that are edges of the graph are never drawn; all other nodes keep their proportions. For each
            pair there must be a node without such an edge, with `time` one that is no later. This is checked before the
            first batch if the items are known then; pairs of a `NodeSource` are checked with their batch.

        Raises
        ------
        InputError
            For a ratio of 0 or below, or not an integer in mode "triplet"; for unknown modes; for weights that are
            negative, undefined or all 0. Before the first batch: for more negatives than memory can hold, seeds that are
            not pairs, pairs without times of the graph's kind, a pair earlier than all nodes of positive weight or, with
            ``"degree"``, than all edges, and, with `reject`, a source with edges to all remaining nodes.
            If a positive pair would have class 0: for labels of which one is 0 and another below 0, or written later so
            that they begin elsewhere; and for labels that begin at 0 and have the largest number of their dtype.
            If there are no times of that name, or, without ``"degree"``, no times of nodes.
        PlanError
            If `reject` or "degree" needs edges that a shard does not have, or if a sampler precedes the stage.
        """

    def to_dgl(
        self,
    ) -> Converted:
        """Turn every batch into a list of DGL's blocks; `MiniBatch.to_dgl` describes their contents.

        Only ``prefetch`` and ``copy_to`` may follow. Background threads convert, so the training loop receives blocks as
        from DGL's own loaders::

            for blocks in plan.fetch_feature(store, node=["x"], labels="y").to_dgl().loader():
                out = model(blocks, blocks[0].srcdata["x"])
                loss = criterion(out, blocks[-1].dstdata["y"])

        Seeds that are pairs yield the result of ``batch.to_dgl(pairs=True)``, the tuple of DGL's loaders of edges::

            for input_nodes, pair_graph, neg_pair_graph, blocks in plan.to_dgl().loader():  # without negatives three
                h = model(blocks, blocks[0].srcdata["x"])
                loss = criterion(predictor(pair_graph, h), predictor(neg_pair_graph, h))

        Batches stay the same, so a checkpoint can be loaded with or without this stage.

        Raises
        ------
        PlanError
            When the loader is made: if ranks make batches together, if hops share one block that is not the whole subgraph
            of its nodes, or for pairs without an edge type in a graph with several edge types.
        ModuleNotFoundError
            When the loader is made, if DGL is not installed.
        """

    def to_pyg(
        self,
    ) -> Converted:
        """Turn every batch into a ``torch_geometric.data.Data``; `MiniBatch.to_pyg` describes its contents.

        Only ``prefetch`` and ``copy_to`` may follow. Background threads convert, so the training loop receives a Data as
        from PyG's own loaders::

            loader = (
                hr.ItemSampler(train_ids, batch_size=1024, shuffle=True)
                .sample_neighbor(graph, fanouts=[15, 10], expand="new")
                .fetch_feature(store, node=["x"], labels="y")
                .to_pyg()
                .loader()
            )
            for data in loader:
                out = model(data.x, data.edge_index)[: data.batch_size]

        Batches stay the same, so a checkpoint can be loaded with or without this stage.

        Raises
        ------
        PlanError
            When the loader is made: if ranks make batches together, or if hops overlap and have no edge ids, which identify
            repeated edges.
        ModuleNotFoundError
            When the loader is made, if torch_geometric is not installed.
        """

    def transform(
        self,
        function: Callable[[MiniBatch], MiniBatch],
    ) -> Plan:
        """Pass every batch through a function.

        The function must depend on nothing but the batch; use ``batch.epoch`` and ``batch.index`` to key its own
        randomness. It may run in a background thread, ahead of the training loop. It may run again for the same batch:
        after a resume, and after a write to features that were read for the batch (`FeatureStore`). Return
        ``batch.replace(...)``; do not change the batch.

        Parameters
        ----------
        function
            Takes a MiniBatch, returns a MiniBatch.

        Raises
        ------
        PlanError
            If `function` is not callable, or, when run, returns anything but a MiniBatch.
        """

    def loader(
        self,
        *,
        machine: Machine | None = None,
        num_threads: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        comm: Comm | None = None,
        partition: Partition | EdgePartition | None = None,
        progress: bool = False,
        tune: bool = False,
        **passes: bool | Pass,
    ) -> Loader[MiniBatch]:
        """Rewrite the plan for the machine and return the loader that runs it.

        Parameters
        ----------
        machine
            The machine to plan for; by default that of this process. For others see `explain`.
        num_threads
            The largest number of threads of one kernel call; by default the machine's cores. A small call uses fewer. The
            minibatches do not depend on it.
        rank, world_size
            The rank of this process among those that share every batch, and their number; by default those of
            torch.distributed if it is initialised, otherwise 0 of 1. With the default, or with `comm`, all ranks make the
            same loaders in the same order. They then compare plan, items and seed; a source without a seed takes that of
            rank 0. A rank that waits for others names them after 10 seconds and gives up after the ``timeout`` of
            ``init_process_group``. Each iteration begins and ends at the same epoch and batch on all ranks, otherwise an
            error names the places; ranks do not wait for each other there. ``rank=0, world_size=1`` makes a loader for this
            rank alone, which reads all items and waits for no other rank, for example for validation on rank 0. Ranks that
            are given as numbers are not compared.
        comm
            The channel for the exchanges of ``cooperative=True``; by default a process group of torch.distributed, which
            waits for a rank for the ``timeout`` of ``init_process_group``. An `hr.testing.LocalGroup` has a channel for
            each thread that runs a rank. Without ``cooperative=True`` ranks only compare their plans on it.
        partition
            The owner of each node for ``cooperative=True``; by default `hr.Partition.hash`. With an `hr.EdgePartition`
            ranks share edges (see the notes).
        progress
            Show a progress bar for each epoch, if stderr is a terminal or a notebook.
        tune
            Choose `num_threads` and prefetch workers by short runs of a few seconds, which make batches and train nothing;
            print the choice as the code to write in place of it. For one process. A training loop that needs all cores for
            its model may be faster with fewer: compare ``loader.stats()``.
        **passes
            One switch per pass, for example ``fuse_sampling=False``; see ``headrace.pipeline.passes``. All are on except
            ``cooperative``. With it, the ranks make each batch together: no two ranks sample or fetch the same node. A pass
            of your own, an `hr.ext.Pass` under a name of yours, runs before these.

        Warns
        -----
        PlanWarning
            If the plan is legal and hardly meant: seeds find edges of their future, or those that a model should predict.

        Raises
        ------
        PlanError
            If the plan is not legal or a switch names no pass. If the plans of ranks differ, it is raised on all ranks, and
            names the difference and a remedy.
        InputError
            If the data of two stages do not fit together.
        PeerError
            If another rank fails, now or while the loader runs, with the traceback of that rank. All ranks must run the
            same plan and leave their loops at the same batch; a rank that leaves earlier is named ("rank 1 left epoch 0
            after batch 3").

        Notes
        -----
        With several ranks, the data of each rank decide who samples and fetches, and the number of *rounds* for a minibatch
        of L layers and one feature. In a round every rank sends something to every other one. It takes one collective, or
        two where counts precede ids. FastSample calls the second and third line hybrid and full partitioning.

        ==============================  =======================  ============================================  ===========
        each rank holds                 ``.loader(...)``         who samples and fetches                       rounds
        ==============================  =======================  ============================================  ===========
        graph and features              ``()``                   each rank its share, common nodes repeatedly  0
        graph; features in shards       ``()``                   owners fetch                                  2
        both in shards                  ``()``                   owners sample and fetch                       2 L
        any of these                    ``(cooperative=True)``   owners, for all ranks                         L + 2
        ==============================  =======================  ============================================  ===========

        Cooperation takes one more round for each layer of the model, in each direction (`hr.cooperative`). It works with
        every sampler with ``expand="all"`` except GraphSAINT's. LABOR-1 to LABOR-* and (P)LADIES take more rounds, in which
        ranks agree on the whole frontier. Fetch directly after the sampler: after a ``transform`` each rank fetches for
        itself. With four cores or more, the next minibatch is sampled during the exchange of rows.

        With ``partition=hr.EdgePartition.grid(graph, num_ranks)``, or a partition by source or destination, each rank
        processes its own edges, so that hubs are divided as well (hybrid-parallel execution, GraphTheta, arXiv 2104.10569).
        The sampler must be ``sample_in_subgraph``; the source may be any. Sampled fanouts, times, negatives, excluded
        edges, graphs with types and shards are refused. The masters of nodes read the features. Layers of `hr.nn` exchange
        rows with the mirrors automatically, in two collectives in each direction; layers of PyG and DGL cannot. Each hop
        takes two rounds; within a boundary all hops together take four. Stages count ``rows_to_mirrors``,
        ``rows_to_masters`` and ``messages``: the amounts that the model will exchange once in each direction.

        Owners read a row directly into the message of each rank that wants it, so several times if several ranks want it.
        ``fuse_exchange=False`` reads each row once, for files that are far larger than memory. ``loader.stats()`` counts
        rounds, collectives and bytes.
        """

    def explain(
        self,
        *,
        machine: Machine | None = None,
        partition: Partition | EdgePartition | None = None,
        facts: bool = False,
        **passes: bool | Pass,
    ) -> str:
        """Return the text of the plan that a loader would run on any machine; nothing is run, copied or exchanged.

        ``loader.explain()`` is the same text for a loader that there is.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([1, 2, 2], [0, 0, 1], num_nodes=3)
        >>> plan = hr.ItemSampler(3, batch_size=2).sample_neighbor(graph, [2]).copy_to("cuda")
        >>> gpus = hr.Machine(cores=32, gpus=4, memory=256 << 30, gpu_memory=(80 << 30,) * 4, world_size=4)
        >>> print(plan.explain(machine=gpus, cooperative=True).splitlines()[1])
          item_sampler(items=..., batch_size=2, seed=...)

        Parameters
        ----------
        machine
            The machine of a rank, and their number; by default that of this process. In a job of torch.distributed the
            text is that of a loader of this rank, with the channel of the job, unless the machine is that of another rank
            or of another number of several. Ranks of such a machine with GPUs are taken to have one each, and to exchange
            tensors from GPU to GPU, as by NCCL.
        partition
            As for `loader`.
        facts
            Whether to print the facts about a batch behind each stage.
        **passes
            One switch per pass, as for `loader`.

        Raises
        ------
        PlanError
            If the plan is not legal or a switch names no pass.
        InputError
            If the data of two stages do not fit together.
        """

class ConvertedVerbs:

    def copy_to(
        self,
        device: str | torch.device,
    ) -> Converted: ...

    def prefetch(
        self,
        workers: SupportsIndex = 1,
        depth: SupportsIndex = 2,
        *,
        eager: bool = True,
    ) -> Converted: ...

    def loader(
        self,
        *,
        machine: Machine | None = None,
        num_threads: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        comm: Comm | None = None,
        partition: Partition | EdgePartition | None = None,
        progress: bool = False,
        tune: bool = False,
        **passes: bool | Pass,
    ) -> Loader[Any]: ...
