"""DGL's own layers on cooperative batches: outputs, gradients and steps are those of one process."""

from __future__ import annotations

import copy
import json

import dgl
import pytest
import torch
from dgl.nn import EdgeWeightNorm, GATConv, GATv2Conv, GraphConv, SAGEConv
from ranks import cooperative_batches, run_processes, run_ranks
from torch import nn
from training import NUM_CLASSES, WIDTH, assert_equal_training, store

import headrace as hr
from headrace.pipeline.distributed.channel import Comm

from plans import graph, items

HEADS = 2


def fetched(plan: hr.Plan) -> hr.Plan:
    return plan.fetch_feature(store(torch.float64), node=["x"], labels="y")


def plan() -> hr.Plan:
    return fetched(items(batch_size=40).sample_neighbor(graph(), [4, 3]))


class Network(nn.Module):
    """Two layers, called as DGL's users do: with a block and its sources, or its sources and destinations."""

    def __init__(self, make, *, pairs: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make(WIDTH), make(NUM_CLASSES)])
        self.pairs = pairs

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        h = x
        for layer, block in zip(self.layers, (block.to_dgl() for block in blocks), strict=True):
            h = layer(block, (h, h[: block.num_dst_nodes()]) if self.pairs else h)
            h = torch.tanh(h.mean(1) if h.dim() == 3 else h)  # the mean over heads
        return h


LAYERS = {
    "sage_mean": lambda width: SAGEConv(WIDTH, width, "mean"),
    "sage_pool": lambda width: SAGEConv(WIDTH, width, "pool", feat_drop=0.2),
    "sage_gcn": lambda width: SAGEConv(WIDTH, width, "gcn"),
    "sage_lstm": lambda width: SAGEConv(WIDTH, width, "lstm"),
    "graph_right": lambda width: GraphConv(WIDTH, width, norm="right", allow_zero_in_degree=True),
    "graph_none": lambda width: GraphConv(WIDTH, width, norm="none", allow_zero_in_degree=True),
    "graph_both": lambda width: GraphConv(WIDTH, width, norm="both", allow_zero_in_degree=True),
    "graph_left": lambda width: GraphConv(WIDTH, width, norm="left", allow_zero_in_degree=True),
    "gat": lambda width: GATConv(WIDTH, width, HEADS, feat_drop=0.1, allow_zero_in_degree=True),
    "gat_residual": lambda width: GATConv(WIDTH, width, HEADS, residual=True, allow_zero_in_degree=True),
    "gat_attn_drop": lambda width: GATConv(WIDTH, width, HEADS, attn_drop=0.3, allow_zero_in_degree=True),
    "gatv2_attn_drop": lambda width: GATv2Conv(WIDTH, width, HEADS, attn_drop=0.3, allow_zero_in_degree=True),
}


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("layer", LAYERS)
def test_training_equals_one_process(layer, world_size):
    torch.manual_seed(7)
    assert_equal_training(plan(), Network(LAYERS[layer]).double(), world_size, 1e-10)


@pytest.mark.parametrize("layer", ["sage_mean", "graph_both", "gat"])
def test_layers_take_sources_and_destinations(layer):
    torch.manual_seed(8)
    assert_equal_training(plan(), Network(LAYERS[layer], pairs=True).double(), 3, 1e-10)


# DGL 2.1 cannot add a residual to no destinations.
@pytest.mark.parametrize("layer", sorted(LAYERS.keys() - {"gat_residual"}))
def test_ranks_without_seeds_take_part(layer):
    torch.manual_seed(9)
    few = fetched(hr.ItemSampler(torch.tensor([3, 7, 5]), batch_size=2).sample_neighbor(graph(), [3, 2]))
    assert_equal_training(few, Network(LAYERS[layer]).double(), 3, 1e-10)


@pytest.mark.parametrize("layer", ["gat_attn_drop", "gatv2_attn_drop"])
def test_attention_is_dropped_alike_with_one_edge_for_each_node(layer):
    """There are as many edges as destinations then: numbers of rows do not tell them apart."""
    torch.manual_seed(10)
    chains = fetched(items(batch_size=40).sample_neighbor(graph(), [1, 1]))
    assert_equal_training(chains, Network(LAYERS[layer]).double(), 3, 1e-10)


def test_dropout_of_attention_needs_ids_of_edges():
    without = fetched(items().sample_neighbor(graph(), [4, 3], edge_ids=False))
    batch = next(iter(without.loader()))
    model = hr.cooperative(Network(LAYERS["gat_attn_drop"]).double())
    with pytest.raises(hr.InputError, match="edges without ids; sample with edge_ids=True"):
        model(batch, batch.x, batch.blocks)


def test_batches_as_dgl_blocks():
    """`batch.to_dgl()` names the nodes of every layer, and its blocks are as good as `block.to_dgl()`."""
    ends = torch.empty(graph().num_edges, 2, dtype=torch.int64)
    destinations = torch.repeat_interleave(torch.arange(graph().num_nodes), graph().in_degrees())
    ends[graph().edge_ids.long()] = torch.stack([graph().indices.long(), destinations], 1)
    torch.manual_seed(11)
    original = Network(LAYERS["graph_both"]).double()

    def work(comm: Comm) -> dict[int, torch.Tensor]:
        out = {}
        model = copy.deepcopy(original)
        model.forward = lambda h, blocks: model.layers[1](blocks[1], torch.tanh(model.layers[0](blocks[0], h)))
        together = hr.cooperative(model)
        with plan().loader(comm=comm, cooperative=True) as loader:
            for batch in loader:
                blocks = batch.to_dgl()
                assert torch.equal(blocks[0].srcdata["x"], batch.x)
                assert torch.equal(blocks[0].dstdata[dgl.NID], batch.exchanges[1].owned)
                for block in blocks:
                    sources, targets = block.edges(order="eid")
                    found = torch.stack([block.srcdata[dgl.NID][sources], block.dstdata[dgl.NID][targets]], 1)
                    assert torch.equal(found, ends[block.edata[dgl.EID]])
                seeds = torch.tanh(together(batch, batch.x, blocks))[batch.seed_index]
                out.update(zip(batch.seeds.tolist(), seeds.detach(), strict=True))
        return out

    alone = {}
    for batch in plan().loader():
        alone.update(zip(batch.seeds.tolist(), original(batch.x, batch.blocks).detach(), strict=True))
    together = {seed: out for share in run_ranks(3, work) for seed, out in share.items()}
    assert together.keys() == alone.keys()
    for seed, out in alone.items():
        torch.testing.assert_close(together[seed], out, rtol=1e-10, atol=1e-10)


def test_edges_of_dgl_blocks_stay_in_one_tree():
    def work(comm: Comm) -> None:
        made = hr.ItemSampler(torch.arange(40), batch_size=20, seed=3).sample_neighbor(graph(), [3, 2], disjoint=True)
        with made.loader(comm=comm, cooperative=True) as loader:
            for batch in loader:
                for block in batch.to_dgl():
                    sources, targets = block.edges()
                    assert torch.equal(block.srcdata["slot"][sources], block.dstdata["slot"][targets])

    run_ranks(2, work)


def test_out_degrees_are_those_of_one_process_in_layers_alone():
    """A block of the user keeps its own; one for a layer counts the edges of all ranks, of any of its sources."""
    seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    class Counting(nn.Module):
        seen = ()

        def forward(self, block, h):
            with block.local_scope():
                self.seen = (block.srcdata[dgl.NID], block.out_degrees(), block.out_degrees(torch.tensor([0])))
            return h[: block.num_dst_nodes()]

    def counted(comm: Comm | None) -> None:
        model = nn.Module()
        model.layers = nn.ModuleList([Counting(), Counting()])
        model.forward = lambda h, blocks: model.layers[1](blocks[1], model.layers[0](blocks[0], h))
        together = hr.cooperative(model)
        with plan().loader(comm=comm, cooperative=comm is not None, prefetch=False) as loader:
            batch = next(iter(loader))
            blocks = batch.to_dgl()
            together(batch, batch.x, blocks)
            for block, ours in zip(blocks, batch.blocks, strict=True):
                assert torch.equal(block.out_degrees(), ours.indices.long().bincount(minlength=ours.num_src))
        seen.extend(layer.seen for layer in model.layers)

    counted(None)
    expected = [dict(zip(nodes.tolist(), degrees.tolist(), strict=False)) for nodes, degrees, _ in seen]
    seen.clear()
    run_ranks(2, counted)
    assert len(seen) == 4
    for nodes, degrees, first in seen:
        assert torch.equal(first, degrees[:1])
        assert any(
            all(layer.get(node) == degree for node, degree in zip(nodes.tolist(), degrees.tolist(), strict=True))
            for layer in expected
        )


SCRIPT = """
import json, sys, torch
import headrace as hr
from dgl.nn import GraphConv
from plans import graph, items
from training import NUM_CLASSES, WIDTH, loss_of, store

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        widths = (WIDTH, NUM_CLASSES)
        self.layers = torch.nn.ModuleList(GraphConv(WIDTH, width, allow_zero_in_degree=True) for width in widths)

    def forward(self, h, blocks):
        first, last = self.layers
        return last(blocks[1].to_dgl(), torch.tanh(first(blocks[0].to_dgl(), h)))

plan = items(batch_size=40).sample_neighbor(graph(), [4, 3])
plan = plan.fetch_feature(store(torch.float64), node=["x"], labels="y")
gradients = []
for where in ({"rank": 0, "world_size": 1}, {"cooperative": True}, {"cooperative": True}):
    torch.manual_seed(0)
    model = hr.cooperative(Network().double())
    with plan.loader(**where) as loader:
        for batch in loader:
            loss_of(batch, model(batch, batch.x, batch.blocks)).backward()
    if where.get("cooperative"):
        hr.sum_gradients(model)
    gradients.append([one.grad.tolist() for one in model.parameters()])
json.dump(gradients, sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_processes_train_as_one(tmp_path):
    """Over torch.distributed of the torch that DGL can be imported with, with one loader and with the next."""
    for text in run_processes(SCRIPT, 2, tmp_path / "meeting"):
        alone, *together = json.loads(text)
        for gradients in together:
            for found, expected in zip(gradients, alone, strict=True):
                left, right = (torch.tensor(one, dtype=torch.float64) for one in (found, expected))
                torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_sums_over_out_edges_are_not_exact():
    """As `hr.cooperative` says: what a layer adds up itself over out-edges, a rank has only in part."""
    whole = next(iter(plan().loader()))
    shares = [mine[0] for mine in cooperative_batches(plan(), 2)]

    def norms(batch: hr.MiniBatch, kind: str) -> dict[int, float]:
        block = batch.to_dgl()[-1]
        weights = EdgeWeightNorm(kind)(block, torch.ones(block.num_edges()))
        return dict(zip(block.edata[dgl.EID].tolist(), weights.tolist(), strict=True))

    for kind, exact in (("right", True), ("both", False)):
        together = {edge: weight for share in shares for edge, weight in norms(share, kind).items()}
        assert together.keys() == norms(whole, kind).keys()
        assert (together == norms(whole, kind)) is exact


def test_layers_that_add_up_out_edges_are_refused():
    class OfOutEdges(nn.Module):
        def forward(self, block, h):
            weights = EdgeWeightNorm("both")(block, torch.ones(block.num_edges()))
            with block.local_scope():
                block.srcdata["h"], block.edata["w"] = h, weights.to(h.dtype)
                block.update_all(dgl.function.u_mul_e("h", "w", "m"), dgl.function.sum("m", "h"))
                return block.dstdata["h"]

    def work(comm: Comm) -> tuple[bool, str]:
        model = hr.cooperative(Network(lambda width: OfOutEdges()))
        with pytest.raises(hr.HeadraceError) as caught, plan().loader(comm=comm, cooperative=True) as loader:
            for batch in loader:
                model(batch, batch.x, batch.blocks)
        return isinstance(caught.value, hr.InputError), str(caught.value)

    told = run_ranks(2, work)
    assert any(is_own for is_own, _ in told)
    assert all("to give a node the same row whatever" in text for _, text in told)
