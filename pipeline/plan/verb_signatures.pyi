"""The verbs of plans, for editors and type checkers; written by `make stubs` from the stages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName, LabelNames
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.plan.plan import Converted, Plan
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
            When the plan is made into a loader where the device cannot be used, or the name means nothing to torch.
        """

    def exclude_seed_edges(
        self,
        *,
        reverse: bool | Mapping[Any, Any] = False,
        per: Literal["batch", "seed"] = "batch",
        by: Literal["ends", "edge_id"] = "ends",
    ) -> Plan:
        """Let the sampler behind it pick no edge that the model is to predict.

        A model that predicts edge u -> v must not find that edge in the neighbourhood of v, nor its reverse in that of u.
        The edges between the pairs of a batch, parallel ones included and those of negatives left out, are not there for
        any hop: fanouts, probabilities and weights are those of the graph without them, so that nothing is lost of what
        is left. Pairs need not have an edge. It takes `sample_neighbor`, `sample_layer_neighbor`, `sample_ladies`,
        `sample_in_subgraph`, `sample_shadow` and `induce_subgraph`, and stands ahead of them. Ranks that share a batch
        leave out the edges of all of its pairs.

        Parameters
        ----------
        reverse
            False (default): the edges u -> v. True: the edges v -> u, too, which a graph has where every edge is there in
            both directions. Of a graph with types either means the edges of any type; a dictionary ``{edge_type:
            reverse_type}`` means those of its keys, among which the seeds' own type must be, and back those of its values.
            With ``by="edge_id"`` ids, int64[num_edges], of each edge that of its reverse, -1 for none; by types the
            reverse of an edge is the one of its number within the other type. True would not say which of several it is.
        per
            ``"batch"`` (default): a batch's edges are left out for all its seeds, as they share their neighbourhood.
            ``"seed"``: those of a pair are left out in its own tree alone, so that it finds those of the other pairs of the
            batch, as it will where it is predicted by itself. Negatives are asked of the same graph as their pair: trees
            of their own leave out the pair's edges, too, or a model would tell them by an edge that no positive pair
            finds. For samplers with ``disjoint=True`` or ``time=``, and `sample_shadow`; subgraphs over a graph in shards
            take it with ``cooperative=True`` alone.
        by
            ``"ends"`` (default): all edges between the ends of a pair, such as earlier purchases of the same thing.
            ``"edge_id"``: the edge alone that the item is, ``ItemSampler(pairs, edge_ids=ids)``; others between the same
            nodes stay. With `time` take ``strictly_before=True`` in place of it, which leaves out all that is of the
            pair's own time, or both where repeats of that time are to stay.

        Raises
        ------
        InputError
            For another `reverse`, `per` or `by`; when a loader is made for types that the graph does not have, seeds of a
            type that is no key, items that are no edges by their ids, and reverses that do not lead back.
        PlanError
            If no sampler follows that can leave out edges, the seeds are no pairs, or `make_bidirectional` follows, which
            would turn an edge back around, and `reverse` is False; with ``per="seed"`` for a sampler without trees;
            with ``by="edge_id"`` for items without `edge_ids`.

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
    ) -> Plan:
        """Read feature rows for the nodes (``batch.node``, ``batch.x``), edges (``batch.edge``) and seeds (``batch.y``).

        Parameters
        ----------
        store
            Where the features are.
        node
            Names of node features to read for every node of the batch, in the order of ``batch.n_id``. Of a graph with
            types a dictionary has the names for each, ``node={"paper": ["x"], "author": ["x"]}``: ``batch.node["paper",
            "x"]`` has a row for each paper of the batch, in their order.
        edge
            Names of edge features to read for every sampled edge, one tensor per block; rows are in input edge order. By
            edge type likewise, with a row for each edge of ``block.relation(edge_type)``.
        labels
            Name of the node feature to read for the seeds alone, into ``batch.y``; not where the items have labels. Of the
            nodes of a type ``labels={"paper": "y"}``, where seeds are of that type. Of seeds of several types
            ``labels={"paper": "y", "author": "z"}`` names one for each: ``batch.y`` is then a dictionary, of which
            ``batch.y["paper"]`` has a row for each seed that is a paper, in the order of ``batch.seeds``.

        Raises
        ------
        FeatureError
            For a name that the store does not have (the message lists those it has), or no name at all.
        PlanError
            If batches come with labels, and ``labels`` names others.
        """

    def induce_subgraph(
        self,
        graph: GraphView,
        *,
        edge_ids: bool = True,
    ) -> Plan:
        """Take, in place of the sampled edges, all edges of the graph among the nodes of the batch.

        The batch then has *one* square block, which all layers of a model use: ``num_src == num_dst``, nodes stay in their
        order, seeds first. A model may have more layers than the sampler has hops. ``num_sampled_nodes`` are the seeds and
        all others, ``num_sampled_edges`` all edges: hops are not told apart any more.

        Ranks that make batches together (``cooperative=True``) find it together, each the in-edges of the nodes that it
        owns: ``num_dst`` of these, and ``num_src`` with the sources of other ranks. In a model `hr.cooperative` exchanges
        rows, or ``batch.exchange(0, h)`` before each layer but the first and ``batch.exchange(1, h)`` at the end.

        Where each rank has a share of the seeds for itself there are subgraphs of trees alone (``disjoint=True``,
        `sample_shadow`): of others, edges between nodes of two ranks would be missing.

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
            If several ranks have a share of a batch each, which are not trees, or the sampler keeps to times, which the
            subgraph would not.
        """

    def make_bidirectional(
        self,
    ) -> Plan:
        """Let messages flow along each sampled edge in both directions.

        The batch then has *one* square block, which all layers of a model use. Of several edges from one node to another,
        and of one type, one stays. An edge that is there against its direction alone has the id of the edge that it turns
        around, and so its features. Importance weights, which say how much of an in-neighbourhood was sampled, are dropped.

        Where there are types an edge that is turned around keeps its own. So each edge type must lead from a node type to
        itself: one from users to movies that is turned around would be of a type that leads back, which has edges and
        features of its own. `headrace.pyg.NeighborLoader` with ``subgraph_type="bidirectional"`` turns edges into those of
        the type back, and gives no ids of edges then.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([1, 2], [0, 1], num_nodes=3)
        >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").make_bidirectional()
        >>> block = next(iter(plan.loader())).blocks[0]
        >>> block.edge_index.tolist(), block.edge_ids.tolist()
        ([[1, 0, 2, 1], [0, 1, 1, 2]], [0, 0, 1, 1])

        Raises
        ------
        PlanError
            If a graph before it has an edge type that leads to another node type.
        """

    def prefetch(
        self,
        workers: SupportsIndex = 1,
        depth: SupportsIndex = 2,
        *,
        eager: bool = True,
    ) -> Plan:
        """Make batches in background threads while the training loop works; their order stays.

        Parameters
        ----------
        workers
            Background threads, each making whole batches; 0 makes them in the training loop's own thread.
        depth
            Most batches held at once, being made or waiting, beyond the one that the training loop has. This bounds the
            memory.
        eager
            Whether threads start with the epoch. Otherwise they do when the training loop has taken long enough, batch for
            batch, for batches made ahead to be worth handing over. Ranks that make batches together are always eager.

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
            How far to go from the seeds; 1 (default) gives the subgraph of all edges that end at a seed.
        expand, edge_ids
            As for ``sample_neighbor``. With ``"all"`` blocks repeat edges, as layers need them; with ``"new"`` each edge is
            there once, in one block.

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

        A hop's destinations are all nodes reached so far. Each in-neighbour t has the score ``q_t = sum of P_ts ** 2``
        over the destinations s, with P_ts = 1 / in-degree of s (or the edge's share of the row's weights). Nodes are
        drawn by their scores, and *all* edges between them and the destinations are kept. The number of nodes of a batch
        is thus known beforehand, and each destination gets what edges happen to lead to it, none included.

        ``Block.weight`` holds P_ts / pi_t, pi_t the probability of t, scaled to average to 1 per destination: a plain mean
        of messages times these weights is the Hajek estimate of the mean (or weighted mean) over all in-edges; of no edges,
        take it as 0. The scores depend on all nodes of the hop: ranks that each sample a share of the batch draw
        `layer_sizes` each, unless ``.loader(cooperative=True)`` lets them draw together.

        *Self terms.* Destinations come first among a block's sources, as always, so a layer has their own rows at hand
        (``x[:num_dst]``) without a draw. Beyond that they are not favoured: no self-loops are added, and an edge from one
        destination to another is kept only if its source was drawn, as any other; only so the estimate stays unbiased.
        Destinations that are drawn count towards `layer_sizes`, so a layer adds at most that many new nodes. A model
        that wants P with self-loops takes a graph with self-loops.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        layer_sizes
            Nodes to draw, one number per hop. ``layer_sizes[0]`` is the hop next to the seeds; DGL and GraphBolt list
            them from the input side, so reverse a list that comes from there. -1 takes all in-neighbours.
        poisson
            False (default): LADIES, exactly that many (where there are as many), one after the other, without replacement.
            The published estimate of it is biased; ours divides by probabilities that make it unbiased before scaling.
            True: PLADIES, each node on its own with probability ``min(1, c * q_t)``; the numbers are then expected ones.
        layer_dependency
            Whether all hops share the random numbers, so that a node drawn in one hop is likely to be in the next.
        weight
            Name of the edge attribute A, one number of at least 0 per edge, for P_ts = A_ts / sum of A over the in-edges of
            s. Edges of weight 0 are never kept. None (default): all edges count alike.
        edge_ids
            Whether blocks carry the original ids of their edges.

        Raises
        ------
        GraphError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
        InputError
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

        Nodes that share a neighbour agree on whether to draw it, so a batch touches fewer nodes than with
        ``sample_neighbor`` at the same fanouts, while each node by itself sees a uniform sample of the same size. Of
        several edges from one node to another each has a random number of its own; whether a graph has any is found out
        once, at the first batch.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        fanouts
            In-edges per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
            GraphBolt list them from the input side, so reverse a list that comes from there. -1 takes all in-edges.
        exact
            True (default): each node gets exactly ``min(fanout, in-degree)`` in-edges, those with the smallest random
            numbers. False: Poisson sampling as in the paper, where ``fanout`` is the expected number. LABOR-1, ... and
            LABOR-* are Poisson sampling whatever this says.
        importance
            Rounds by which the nodes of a hop agree on the probabilities of their in-neighbours: 0 (default) is
            LABOR-0, 1 is LABOR-1, and so on to 1,000; ``"*"`` goes on until a round lowers the expected number of nodes
            by no more than 0.01 % (LABOR-*).

            *Gains*: fewer nodes, so fewer feature rows, at the same variance of a mean over the sampled neighbours
            (published for ogbn-products, three layers of fanout 10: 166 thousand for LABOR-*, 237 thousand for LABOR-0, 513
            thousand for ``sample_neighbor``).

            *Costs*: more edges, since a node draws more than ``fanout`` of its in-edges where their probabilities differ;
            time, since all in-edges of all nodes of the hop are looked at once per round and more; and a model must use
            ``Block.weight``, which is always there: a plain mean of weighted messages is the Hajek estimate (of no edges,
            take it as 0). The probabilities depend on all nodes of the hop: ranks that each sample a share of the batch
            agree among their own and do not reach the nodes that one process would, but with ``cooperative=True`` they
            agree with each other, in 3 rounds of communication for each round of importance (see `sample_hop_together`).
        layer_dependency
            Whether all hops share the random numbers, so that a node keeps its neighbourhood from hop to hop; fewer
            nodes still, at the price of dependent layers.
        batch_dependency
            Kappa, the number of batches over which the random numbers change (arXiv 2310.12403): 1 (default) draws new
            ones for every batch; with more, consecutive batches sample much the same neighbours of the nodes that they
            share, so that a cache of feature rows misses less; ``math.inf`` never changes them, in no batch and no epoch.
            Each batch by itself is drawn by the same law whatever this is, so sizes, bias and variance stay.

            *Costs*: batches that are less than 2 * kappa apart are dependent; with ``math.inf`` a node's neighbourhood is
            the same for the whole training. Where two random numbers are blended, which are all batches but each kappa-th,
            sampling takes some 50 ns more per in-edge looked at. The random numbers go on from batch to batch
            of an epoch and begin anew with the next one, where nearly all neighbours change at once. Not in trees: their
            random numbers go by the place of their seed in the batch, which changes.
        weight
            Name of the edge attribute A to sample by, one number of at least 0 per edge: edge t -> s is wanted with
            probability min(1, fanout * A_ts / sum of A over the in-edges of s), and ``Block.weight`` makes a plain mean the
            Hajek estimate of the mean weighted by A. Edges of weight 0 are never drawn. None (default) samples uniformly.

            *Bias.* With ``exact=True`` that estimate is biased where fanouts are small or close to in-degrees, and messages
            go with the weights: by about 0.2 standard deviations of messages proportional to the weights at 1 or at 10 of
            20 in-edges, by 0.02 to 0.05 at 1 to 10 of 100; not for messages that have nothing to do with the weights.
            ``sample_neighbor(..., weight=..., replace=True)`` has no bias at any fanout; larger fanouts, for which
            ``exact=False`` is the safer choice, make it small.
        expand, edge_ids, disjoint, time, window, strictly_before
            As for ``sample_neighbor``. Trees share no random numbers, as they share no nodes: `importance` has to be 0,
            and `batch_dependency` 1.

        Raises
        ------
        GraphError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
        InputError
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
        """Sample in-neighbours hop by hop, each node for itself (GraphSAGE, arXiv 1706.02216).

        Every k-subset of a node's in-edges is equally likely, exactly: the integers behind it are free of modulo bias.

        Parameters
        ----------
        graph
            The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
        fanouts
            In-edges to draw per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
            GraphBolt list them from the input side, so reverse a list that comes from there. -1 takes all in-edges.
        replace
            Whether to draw with replacement. A fanout of -1 takes every in-edge once either way.
        weight
            Name of the edge attribute to sample by, one number of at least 0 per edge: without replacement edges are drawn
            one after the other with probabilities proportional to it, with replacement each draw is. Edges of weight 0 are
            never drawn. None (default) samples uniformly. Without replacement a plain mean over the picks estimates neither
            the mean nor the weighted mean of all in-edges: for that take `sample_layer_neighbor`. The first batch makes
            tables of two bytes per edge, which stay with the graph.
        expand
            ``"all"`` (default): each hop samples for every node seen so far, which layer-wise blocks need (DGL,
            GraphBolt). ``"new"``: only for nodes that the previous hop reached first, which gives one block that all
            layers share (PyG, ``trim_to_layer``).
        edge_ids
            Whether blocks carry the original ids of their edges; without them sampling is a little faster.
        disjoint
            Whether each seed grows a tree of its own: no node is shared, and one that two trees reach is there twice;
            `MiniBatch.slot` says which is in which. Seeds come first, repeats kept, one tree each; both ends of a pair
            share one. Draws of trees are independent.
        time
            Name of times of edges, of nodes, or of both (edge attributes and node attributes of the graph): a tree, which
            is disjoint then, has only edges of the time of its seed or earlier, those of an edge being the later one of its
            own time and of its source's. Seeds have times of their own, ``ItemSampler(items, time=...)``, or those of their
            nodes. Rows are sorted by time once, at the first loader, which copies the graph where they are not yet; see
            `Graph.by_time`.

            *Its own time counts*: a link that is predicted at time t sees the edge of that link, which has the time t, too,
            and so its label. For links that are edges of the graph take ``strictly_before=True``; where other edges of that
            time are to stay, ``exclude_seed_edges(by="edge_id")``, which leaves out the link's own edge alone.
        window
            Beside `time`, how far back trees look: edges are no earlier than the seed's time less this.
        strictly_before
            Beside `time`: False (default), edges of the seed's own time are there; True, only those of earlier times, in
            all hops. Earlier edges between the same nodes stay, which `exclude_seed_edges` by the ends of pairs would take
            away. A window reaches back from the seed's time either way.
        strategy
            Beside `time`: ``"uniform"`` (default) draws among the edges of a tree, by weight if there is one; ``"last"``
            takes the most recent, of edges of one time those that came last.

        Raises
        ------
        GraphError
            If there is no such edge attribute, or it holds negative, infinite or undefined values; if there are no times of
            this name, or they are none.
        InputError
            For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule; for a window,
            `strictly_before` or ``strategy="last"`` without times, or the latter with a weight or replacement.
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
        """Take as neighbours of a node those that random walks from it visit most often (PinSAGE, arXiv 1806.01973).

        Walks step to uniform in-neighbours, against the direction of messages. ``Block.weight`` holds the visit counts,
        scaled so that they average to 1 per destination: a plain mean with these weights is the paper's importance pooling.
        The neighbours are no edges of the graph, so blocks carry no edge ids. The node itself is never among them; of
        nodes visited equally often those reached first are taken. A node without in-edges has no neighbours.

        Parameters
        ----------
        graph
            The graph to walk on. Every node on the way counts, of whatever kind: where only items may be neighbours of
            items, walk on a graph of items.
        num_neighbors
            Most neighbours per node.
        num_walks
            Walks from each node.
        walk_length
            Steps of a walk. All walks from a node together take at most 1,048,576.
        restart
            Probability, in [0, 1), that a step leads back to the walk's start.
        num_layers
            Hops. Each is drawn anew, so a node may have other neighbours in another layer.
        weight
            Name of an edge attribute to walk by: an in-edge is taken in proportion to it. None (default) walks uniformly.
        expand
            As for ``sample_neighbor``.

        Raises
        ------
        GraphError
            If there is no such edge attribute, or it holds negative, infinite or undefined values.
        InputError
            For numbers below 1, a restart outside [0, 1), a subject that is not a graph, or an unknown hop rule.
        """

    def sample_saint_edge(
        self,
        graph: GraphView,
        budget: SupportsIndex,
        *,
        norms: bool = True,
        edge_ids: bool = True,
    ) -> Plan:
        """Train on the subgraph between the ends of drawn edges: GraphSAINT's edge sampler (arXiv 1907.04931).

        Each batch draws ``budget`` edges, independently and with replacement, edge u -> v in proportion to
        1 / in-degree(v), by exactly uniform integers. Where every edge is there in both directions, so that u and v may be
        drawn by either, this is the law of the paper, 1 / degree(u) + 1 / degree(v). The source's items only say how many
        batches make an epoch and where it stands, as for ``sample_saint_node``.

        The norms have a closed form and are exact; nothing is sampled beforehand. What the batch then holds is described at
        :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler`.

        Parameters
        ----------
        graph
            The graph to sample from.
        budget
            Edges to draw per batch; the subgraph has at most twice as many nodes, and all edges between them.
        norms, edge_ids
            As for ``sample_saint_node``.

        Raises
        ------
        InputError
            For a subject that is not a graph or has no edges, or a budget below 1.
        PlanError
            If the source carries labels, or several ranks would share a batch.
        """

    def sample_saint_node(
        self,
        graph: GraphView,
        budget: SupportsIndex,
        *,
        norms: bool = True,
        edge_ids: bool = True,
    ) -> Plan:
        """Train on the subgraph of drawn nodes: GraphSAINT's node sampler (arXiv 1907.04931).

        Each batch draws ``budget`` nodes, independently and with replacement, node u in proportion to the sum over its
        out-neighbours w of 1 / in-degree(w) ** 2, which is the squared norm of u's column in the row-normalised adjacency
        matrix. A node without out-edges is never drawn. The source's items only say how many batches make an epoch and
        where it stands: which nodes are drawn depends on the source's seed, the epoch and the batch index.

        The norms have a closed form and are exact; nothing is sampled beforehand. What the batch then holds is described at
        :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler`.

        Parameters
        ----------
        graph
            The graph to sample from.
        budget
            Draws per batch; the subgraph has at most so many nodes.
        norms
            Whether the batch carries ``node["loss_weight"]`` and ``Block.weight``.
        edge_ids
            Whether the block carries the original ids of its edges.

        Raises
        ------
        InputError
            For a subject that is not a graph or has no edges, or a budget below 1.
        PlanError
            If the source carries labels, or several ranks would share a batch.
        """

    def sample_saint_walk(
        self,
        graph: GraphView,
        walk_length: SupportsIndex,
        *,
        norms: bool = True,
        edge_ids: bool = True,
        num_samples: SupportsIndex | None = None,
    ) -> Plan:
        """Train on the subgraph that random walks from the seeds visit: GraphSAINT's walk sampler (arXiv 1907.04931).

        The seeds of the source are the roots, so its ``batch_size`` is the number of roots; give it all nodes of the
        graph, shuffled, to have every node trained. From each distinct root one walk goes ``walk_length`` steps, each to
        a uniform in-neighbour, and ends early where there is none.

        The norms are *estimated*: before the first batch, ``num_samples`` subgraphs are drawn, without features, and their
        nodes and edges counted (C_v and C_e). They are the batches of epochs that training never reaches, counted down
        from 2**32 - 1, so the norms too are a pure function of the plan, whatever the threads. They are kept with the
        graph, 8 bytes per edge, for further loaders of an equal plan. What is in none of these subgraphs counts as if it
        were in one: its norm is defined, but it has less than its share of the loss, and a warning says how many nodes
        that are. What the batch then holds is described at :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler`.

        Parameters
        ----------
        graph
            The graph to sample from.
        walk_length
            Steps per walk, at most 1,048,576.
        num_samples
            Subgraphs to draw for the norms. None (default): 50 * num_nodes / (batch_size * (walk_length + 1)), rounded up,
            so that the walks visit each node about 50 times where the source's items are all nodes.
        norms, edge_ids
            As for ``sample_saint_node``.

        Raises
        ------
        InputError
            For a subject that is not a graph or has no edges, numbers below 1, items that are not in the graph, or
            `num_samples` without norms.
        PlanError
            If the source carries labels, several ranks would share a batch, or norms are asked for and the source is not an
            ``ItemSampler``, whose batches can be drawn ahead.
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
        """Give each seed an ego net of its own: ShaDow's k-hop sampler (arXiv 2201.07858).

        From each seed neighbours are sampled hop by hop, up to `fanout` for each node, and the ego net has all edges of the
        graph among the nodes so found. Ego nets share no node: one that two of them reach is there twice. The batch is
        their union, *one* square block, on which a model of any depth runs; ``batch.slot`` says in which ego net each of
        ``n_id`` is. The seeds come first, repeats kept, so ``out[: batch.num_seeds]`` are theirs. Several ranks each find
        the ego nets of their share of the seeds, or with ``cooperative=True`` all of them together.

        Parameters
        ----------
        graph
            The graph to sample from.
        depth
            Hops from the seed.
        fanout
            In-edges to draw for each node in each hop, of a graph with types of each edge type; -1 takes all.
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
        """Add negative pairs to the positive ones, drawn anew for each batch; ahead of the sampler.

        A negative has the source of a positive pair and a destination drawn from all nodes of the type of that pair's
        destination, each equally likely and independently of the others. An edge of the graph may be among them, which is
        rare in large graphs; `reject` draws among the nodes without one. Draws are keyed by the seed, the batch and the
        pair's place in it, so the ranks that share a batch draw what one process would.

        The batch then has ``num_positives``, the number of positive pairs, and

        - mode "binary": the negative pairs behind the positive ones in ``seeds``, those of one pair after the other, with
          -1 in ``item_index``, and labels ``y``: 1 and 0, float32, where items have none. Negatives of items with labels
          are of class 0; labels that begin at 0 move up by one then, as in PyG. ``num_global_seeds`` counts negatives;
        - mode "triplet": ``seeds`` int64[num_pairs, 2 + ratio], source, positive destination and negative ones; ``y`` and
          ``num_global_seeds`` stay.

        Parameters
        ----------
        graph
            Its nodes are drawn, and with `reject` its edges are not.
        ratio
            Negatives for each positive pair. In mode "binary" of the whole batch, rounded up: 0.5 gives 2 for 3 pairs.
        mode
            See above.
        corrupt
            ``"destination"`` (default) or ``"both"``: sources of negatives are drawn, too, as PyG does in mode "binary".
        node_weight
            How likely a node is drawn: None, all alike; ``"degree"``, in proportion to its in-degree, with `time` to that
            at the time of the pair; or numbers of at least 0, [num_nodes].
        source_weight
            How likely a node is drawn as a source, where ``corrupt="both"`` draws them: any of the above. None (default):
            as `node_weight` says.
        time
            Name of times of nodes: no node is drawn that is later than its pair, so that it was there, too. Pairs have
            times then, ``ItemSampler(pairs, time=...)``, and each a node of its time or earlier. By degree edges count
            that were there at the pair's time, those with neither a later time of their own nor a later end; times of edges
            alone will do, and are sorted once, 16 bytes for each.
        strictly_before
            Beside `time`: True leaves out nodes, and edges that count by degree, of the pair's own time, such as the edge
            of the pair itself.
        reject
            Whether no edge of the graph is drawn: never, and all other nodes keep their proportions. Each pair must have
            such a node, with `time` one of its time or earlier. That is checked before the first batch, where the items
            are known then; pairs that a `NodeSource` draws are refused with their batch.

        Raises
        ------
        InputError
            For a ratio of 0 or below, one that is no integer in mode "triplet", unknown modes, weights that are negative,
            undefined or all 0; before the first batch for more negatives than memory can hold, seeds that are no pairs,
            pairs without times of the graph's kind, a pair earlier than all nodes of positive weight, or, by degree, than
            all edges, and with `reject` a source with edges to all nodes that are left.
        GraphError
            If there are no times under that name, or, but by degree, none of nodes.
        PlanError
            If `reject` or "degree" needs more of a graph than a shard has, or a sampler stands before it.
        """

    def to_dgl(
        self,
    ) -> Converted:
        """Turn every batch into a list of DGL's blocks, as `MiniBatch.to_dgl` does, which says what they hold.

        It ends what a plan does on the CPU: only ``prefetch`` and ``copy_to`` may follow. As the conversion is made in
        background threads, the training loop receives blocks as DGL's own loaders would give them::

            for blocks in plan.fetch_feature(store, node=["x"], labels="y").to_dgl().loader():
                out = model(blocks, blocks[0].srcdata["x"])
                loss = criterion(out, blocks[-1].dstdata["y"])

        Seeds that are pairs give what ``batch.to_dgl(pairs=True)`` does, the tuple of DGL's loaders of edges::

            for input_nodes, pair_graph, neg_pair_graph, blocks in plan.to_dgl().loader():  # without negatives three
                h = model(blocks, blocks[0].srcdata["x"])
                loss = criterion(predictor(pair_graph, h), predictor(neg_pair_graph, h))

        Batches stay the same, so a checkpoint can be loaded with or without this stage.

        Raises
        ------
        PlanError
            When the plan is made into a loader in which ranks make batches together, where hops share one block that is
            no whole subgraph of its nodes, or for pairs of a graph with several edge types that do not say theirs.
        ModuleNotFoundError
            Then as well, if DGL is not installed.
        """

    def to_pyg(
        self,
    ) -> Converted:
        """Turn every batch into a ``torch_geometric.data.Data``, as `MiniBatch.to_pyg` does, which says what it holds.

        It ends what a plan does on the CPU: only ``prefetch`` and ``copy_to`` may follow. As the conversion is made in
        background threads, the training loop receives the Data as PyG's own loaders would give it::

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
            When the plan is made into a loader in which ranks make batches together, or where hops overlap and carry no
            edge ids to know the edges that they share.
        ModuleNotFoundError
            Then as well, if torch_geometric is not installed.
        """

    def transform(
        self,
        function: Callable[[MiniBatch], MiniBatch],
    ) -> Plan:
        """Pass every batch through a function.

        The function must depend on nothing but the batch (use ``batch.epoch`` and ``batch.index`` to key randomness of its
        own): it may run in a background thread, ahead of the training loop, and again: after a resume, and
        where features were written since they were read for the batch (`FeatureStore`). Return
        ``batch.replace(...)`` rather than changing the batch.

        Parameters
        ----------
        function
            Takes a MiniBatch, returns a MiniBatch.

        Raises
        ------
        PlanError
            If it cannot be called, or, when run, returns something else than a MiniBatch.
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
