"""Links, their negatives and labels, and edges that are left out (peers.md, part A, section 5, 17 and 18)."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import LinkLoader
from torch_geometric.loader import LinkNeighborLoader as TheirLinkNeighborLoader
from torch_geometric.sampler import BaseSampler, NegativeSampling

import headrace as hr
from headrace.pyg import LinkNeighborLoader, Sampler

WRITES = ("author", "writes", "paper")


def pairs_of(edge_index):
    return set(map(tuple, edge_index.t().tolist()))


def test_parameters_are_those_of_pyg():
    ours = list(inspect.signature(LinkNeighborLoader).parameters)
    theirs = list(inspect.signature(TheirLinkNeighborLoader).parameters)
    assert ours[: len(theirs) - 1] == theirs[:-1]


def test_peers_17_positive_links(data):
    """Through n_id they are the links, whatever the order; labels and ids are theirs."""
    links, label = data.edge_index[:, 40:140], torch.arange(100) * 3
    loader = LinkNeighborLoader(data, [3, 2], links, label, batch_size=30, shuffle=True, seed=1)
    assert len(loader) == 4
    for batch in loader:
        assert torch.equal(batch.n_id[batch.edge_label_index], links[:, batch.input_id])
        assert torch.equal(batch.edge_label, label[batch.input_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert "batch_size" not in batch
        ends = batch.edge_label_index.unique()
        assert torch.equal(ends, torch.arange(batch.num_sampled_nodes[0])), "ends come first"
    every = next(iter(LinkNeighborLoader(data, [2], batch_size=700)))
    assert torch.equal(every.n_id[every.edge_label_index], data.edge_index)
    assert "edge_label" not in every


@pytest.mark.parametrize("amount", [1, 2, 0.5, 0.3])
def test_peers_17_binary_negatives(data, amount):
    links = data.edge_index[:, :45]
    loader = LinkNeighborLoader(
        data, [2, 2], links, neg_sampling=NegativeSampling("binary", amount), batch_size=15, shuffle=True, seed=1
    )
    for batch in loader:
        number = 15 + math.ceil(15 * amount)
        assert batch.edge_label_index.shape == (2, number)
        assert batch.edge_label.tolist() == [1.0] * 15 + [0.0] * (number - 15)
        assert batch.edge_label.dtype == torch.float32
        assert torch.equal(batch.n_id[batch.edge_label_index[:, :15]], links[:, batch.input_id])
        assert batch.input_id.shape == (15,)
        assert "edge_label_time" not in batch
    other = LinkNeighborLoader(data, [2, 2], links, neg_sampling_ratio=amount, batch_size=15, shuffle=True, seed=1)
    for left, right in zip(loader, other, strict=True):
        assert left.edge_label_index.shape == right.edge_label_index.shape


@pytest.mark.parametrize("first", [0, 1])
def test_peers_17_labels_make_room_for_the_negatives(data, first):
    """Those that begin at 0 move up by one; 0 is the label of negatives, in the dtype of the labels."""
    links, label = data.edge_index[:, :40], torch.arange(40) % 3 + first
    for sampler in (None, [39, 0, 1, 2, 5]):
        loader = LinkNeighborLoader(data, [2], links, label, neg_sampling="binary", batch_size=5, sampler=sampler)
        for batch in loader:
            assert batch.edge_label[:5].tolist() == (label[batch.input_id] + 1 - first).tolist()
            assert batch.edge_label[5:].tolist() == [0] * 5
            assert batch.edge_label.dtype == torch.int64


@pytest.mark.parametrize("amount", [1, 2])
@pytest.mark.parametrize("size", [1, 12])
def test_peers_17_triplets(data, amount, size):
    data.edge_label_index = data.edge_index[:, :3]
    links = data.edge_index[:, :24]
    loader = LinkNeighborLoader(
        data, [2], links, neg_sampling={"mode": "triplet", "amount": amount}, batch_size=size, shuffle=True, seed=1
    )
    for batch in loader:
        assert torch.equal(batch.n_id[torch.stack([batch.src_index, batch.dst_pos_index])], links[:, batch.input_id])
        assert batch.dst_neg_index.shape == ((size,) if amount == 1 else (size, amount))
        assert "edge_label_index" not in batch
        assert "edge_label" not in batch
    with pytest.raises(ValueError, match="edge_label"):
        LinkNeighborLoader(data, [2], links, torch.ones(24), neg_sampling="triplet")
    with pytest.raises(ValueError, match="integer"):
        LinkNeighborLoader(data, [2], links, neg_sampling={"mode": "triplet", "amount": 1.5})


def test_peers_17_negatives_are_drawn_anew_and_by_the_seed(data):
    def made(seed):
        return LinkNeighborLoader(data, [2], neg_sampling="binary", batch_size=700, seed=seed)

    def negatives(loader):
        (batch,) = loader
        return batch.n_id[batch.edge_label_index[:, 700:]]

    loader = made(1)
    first = negatives(loader)
    assert torch.equal(negatives(made(1)), first)
    assert not torch.equal(negatives(loader), first)
    assert not torch.equal(negatives(made(2)), first)
    assert len(first.unique()) == data.num_nodes, "both ends are any nodes"


def test_peers_17_weights_of_negatives(data):
    weight = torch.zeros(data.num_nodes)
    weight[:5] = 1
    sampling = NegativeSampling("triplet", 2, dst_weight=weight)
    for batch in LinkNeighborLoader(data, [2], neg_sampling=sampling, batch_size=100):
        assert (batch.n_id[batch.dst_neg_index] < 5).all()
    both = NegativeSampling("binary", 1, src_weight=weight, dst_weight=weight)
    for batch in LinkNeighborLoader(data, [2], neg_sampling=both, batch_size=100):
        assert (batch.n_id[batch.edge_label_index[:, 100:]] < 5).all()
    other = weight.roll(5)
    for given, (low, high) in ((other, (5, 10)), (None, (0, data.num_nodes))):
        sampling = NegativeSampling("binary", 1, src_weight=weight, dst_weight=given)
        (batch,) = LinkNeighborLoader(data, [2], neg_sampling=sampling, batch_size=data.num_edges)
        source, destination = batch.n_id[batch.edge_label_index[:, data.num_edges :]]
        assert (source < 5).all()
        assert set(destination.tolist()) == set(range(low, high))


@pytest.mark.parametrize("relation", [WRITES, ("paper", "cites", "paper")])
@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_peers_17_negatives_of_types(hetero, relation, mode):
    weight = torch.zeros(60)
    weight[7] = 1
    sampling = NegativeSampling(mode, 2, dst_weight=weight, src_weight=weight if relation != WRITES else None)
    loader = LinkNeighborLoader(
        hetero, [2, 2], edge_label_index=relation, neg_sampling=sampling, batch_size=20, shuffle=True, seed=1
    )
    source, _, destination = relation
    for batch in loader:
        links = hetero[relation].edge_index[:, batch[relation].input_id]
        size = links.shape[1]
        if mode == "binary":
            row, col = batch[relation].edge_label_index
            assert len(row) == 3 * size
            assert (batch[destination].n_id[col[size:]] == 7).all()
        else:
            row, col = batch[source].src_index, batch[destination].dst_pos_index
            assert (batch[destination].n_id[batch[destination].dst_neg_index] == 7).all()
            assert batch[destination].dst_neg_index.shape == (size, 2)
            assert "edge_label_index" not in batch[relation]
        assert torch.equal(torch.stack([batch[source].n_id[row[:size]], batch[destination].n_id[col[:size]]]), links)


def test_peers_17_a_graph_without_edges():
    """Links need not be edges."""
    alone = Data(x=torch.arange(6.0), edge_index=torch.empty(2, 0, dtype=torch.int64))
    links = torch.tensor([[0, 4], [5, 4]])
    (batch,) = LinkNeighborLoader(alone, [3], links, neg_sampling="binary", batch_size=2)
    assert torch.equal(batch.n_id[batch.edge_label_index[:, :2]], links)
    assert torch.equal(batch.x, batch.n_id.float())
    assert batch.num_edges == 0


@pytest.mark.parametrize("neg_sampling", [None, "binary", "triplet"])
def test_pygs_own_loader_with_our_sampler(data, neg_sampling):
    sampling = None if neg_sampling is None else NegativeSampling(neg_sampling, 2)
    options = {"edge_label_index": data.edge_index[:, :40], "neg_sampling": sampling, "batch_size": 10}
    ours, theirs = LinkNeighborLoader(data, [2], **options), LinkLoader(data, Sampler(data, [2]), **options)
    for left, right in zip(ours, theirs, strict=True):
        assert set(left.keys()) == set(right.keys())
        for name in ("edge_label_index", "edge_label", "src_index", "dst_neg_index", "input_id"):
            assert (name in left) == (name in right)
            if name in left:
                assert left[name].shape == right[name].shape
                assert left[name].dtype == right[name].dtype
        assert torch.equal(right.n_id[right.edge_index], data.edge_index[:, right.e_id])


@pytest.mark.parametrize("exclude", [False, True, "reverse"])
@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_peers_18_links_of_the_batch_are_left_out(undirected, exclude, subgraph_type):
    if exclude is True and subgraph_type == "bidirectional":
        with pytest.raises(hr.InputError, match='exclude_seed_edges="reverse" with subgraph_type="bidirectional"'):
            LinkNeighborLoader(undirected, [2], exclude_seed_edges=exclude, subgraph_type=subgraph_type)
        return
    loader = LinkNeighborLoader(
        undirected,
        [-1, -1],
        batch_size=40,
        shuffle=True,
        seed=1,
        exclude_seed_edges=exclude,
        neg_sampling="binary",
        subgraph_type=subgraph_type,
    )
    met = {"links": 0, "reverse": 0}
    for batch in loader:
        edges = pairs_of(batch.n_id[batch.edge_index])
        links = pairs_of(batch.n_id[batch.edge_label_index[:, : len(batch.input_id)]])
        met["links"] += len(edges & links)
        met["reverse"] += len(edges & {(v, u) for u, v in links})
    if exclude == "reverse":
        assert met == {"links": 0, "reverse": 0}
    elif subgraph_type != "bidirectional":
        assert (met["links"] == 0) == (exclude is True)
        assert met["reverse"] > 0


def test_links_are_left_out_of_their_own_trees(undirected):
    """Those of other links of the batch are there, and negatives have the graph of their link."""
    options = {"batch_size": 40, "seed": 1, "disjoint": True, "neg_sampling": "binary"}
    loader = LinkNeighborLoader(undirected, [-1, -1], exclude_seed_edges="reverse", exclude_per="seed", **options)
    of_others = 0
    for batch in loader:
        count = len(batch.input_id)
        links = batch.n_id[batch.edge_label_index[:, :count]].t().tolist()
        every = {tuple(link) for link in links}
        for tree in range(2 * count):
            mine = batch.batch[batch.edge_index[1]] == tree
            edges = pairs_of(batch.n_id[batch.edge_index[:, mine]])
            u, v = links[tree % count]
            assert not edges & {(u, v), (v, u)}
            of_others += len(edges & every)
    assert of_others > 0
    with pytest.raises(hr.PlanError, match=r'expected trees with exclude_seed_edges\(per="seed"\)'):
        LinkNeighborLoader(undirected, [2], exclude_seed_edges=True, exclude_per="seed")
    with pytest.raises(hr.InputError, match="expected exclude_seed_edges beside exclude_per='seed', got False"):
        LinkNeighborLoader(undirected, [2], disjoint=True, exclude_per="seed")
    with pytest.raises(hr.InputError, match='per to be "batch" or "seed"'):
        LinkNeighborLoader(undirected, [2], disjoint=True, exclude_seed_edges=True, exclude_per="node")


def test_peers_18_reverses_of_types(hetero):
    reverse = ("paper", "rev_writes", "author")
    options = {"edge_label_index": WRITES, "batch_size": 30, "seed": 1}
    found = {}
    for exclude in (False, {WRITES: reverse}):
        loader = LinkNeighborLoader(hetero, [-1, -1], exclude_seed_edges=exclude, **options)
        found[bool(exclude)] = 0
        for batch in loader:
            row, col = batch[WRITES].edge_label_index
            links = set(zip(row.tolist(), col.tolist(), strict=True))
            back = set(map(tuple, batch[reverse].edge_index.flip(0).t().tolist()))
            found[bool(exclude)] += len(links & pairs_of(batch[WRITES].edge_index)) + len(links & back)
    assert found[True] == 0
    assert found[False] > 0


@pytest.mark.filterwarnings("ignore:Cannot convert to bidirectional graph")  # PyG's, of types that nothing leads back
@pytest.mark.parametrize("subgraph_type", ["bidirectional", "induced"])
def test_peers_18_subgraphs_of_types(hetero, subgraph_type):
    loader = LinkNeighborLoader(
        hetero,
        [-1, -1],
        edge_label_index=WRITES,
        batch_size=30,
        seed=1,
        exclude_seed_edges={WRITES: ("paper", "rev_writes", "author")},
        subgraph_type=subgraph_type,
    )
    met = 0
    for batch in loader:
        links = pairs_of(batch[WRITES].edge_label_index)
        met += batch[WRITES].edge_index.shape[1]
        assert not links & pairs_of(batch[WRITES].edge_index)
        assert not links & pairs_of(batch["paper", "rev_writes", "author"].edge_index.flip(0))
    assert met > 0


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_peers_15_negatives_are_no_later_than_their_links(data, mode):
    """Both ends that are drawn were there at the time of the link; through PyG's own loader, too."""
    data.time = torch.arange(data.num_nodes) * 31 % 40
    links, times = data.edge_index[:, :60], torch.arange(60) * 7 % 30
    options = {
        "edge_label_index": links,
        "edge_label_time": times,
        "neg_sampling": NegativeSampling(mode, 3),
        "batch_size": 20,
    }
    ours = LinkNeighborLoader(data, [2], time_attr="time", shuffle=True, seed=1, **options)
    for loader in (ours, LinkLoader(data, Sampler(data, [2], time_attr="time", seed=1), **options)):
        for batch in loader:
            of_links = times[batch.input_id]
            if mode == "triplet":
                drawn, bound = batch.n_id[batch.dst_neg_index], of_links[:, None]
            else:
                drawn, bound = batch.n_id[batch.edge_label_index[:, 20:]], of_links.repeat(3)
            assert (data.time[drawn] <= bound).all()


def test_a_sampler_of_others_cannot_leave_out_edges(data):
    class Theirs(BaseSampler):
        def sample_from_nodes(self, index, **_):
            raise NotImplementedError

        sample_from_edges = sample_from_nodes

    with pytest.raises(
        hr.InputError, match=r"neighbor_sampler that is not headrace\.pyg\.Sampler, got True and Theirs"
    ):
        LinkNeighborLoader(data, [2], neighbor_sampler=Theirs(), exclude_seed_edges=True)


def test_resume_behind_a_batch_of_links(data):
    def made(**options):
        return LinkNeighborLoader(
            data,
            [2],
            neg_sampling="binary",
            exclude_seed_edges="reverse",
            batch_size=100,
            shuffle=True,
            seed=4,
            **options,
        )

    def bits(batches):
        return [torch.cat([batch.n_id, batch.edge_label_index.flatten()]).tolist() for batch in batches]

    whole, loader = bits(made()), made()
    iteration = iter(loader)
    next(iteration)
    next(iteration)
    resumed = made(num_workers=2)
    resumed.load_state_dict(loader.state_dict())
    assert bits(resumed) == whole[2:]


@pytest.mark.parametrize("end", ["src_weight", "dst_weight"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_negatives_that_were_written_are_refused(data, end, dtype):
    """PyG draws by what they are then; here the loader has sums of them."""
    weights = torch.ones(data.num_nodes, dtype=dtype)
    loader = LinkNeighborLoader(data, [2], neg_sampling=NegativeSampling("binary", **{end: weights}), batch_size=99)
    assert list(loader)
    weights.numpy()[3] = 5
    with pytest.raises(hr.InputError, match=f"LinkNeighborLoader: expected {end} to stay as it was.*make a new"):
        list(loader)
