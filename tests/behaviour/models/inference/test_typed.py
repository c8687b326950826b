"""hr.inference on graphs with types gives every node what the model gives it on the whole graph, by type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from typed_edges import whole

import headrace as hr

from plans import NODE_TYPES, NUM_NODES, RELATIONS, typed_graph

pytest.importorskip("torch_geometric")
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, HGTConv, RGCNConv, SAGEConv

CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # in double precision
WIDTHS = {"a": 5, "b": 3, "lonely": 2}
LIKES = ("a", "likes", "a")
pytestmark = pytest.mark.filterwarnings("ignore:There exist node types")


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tables(widths: dict[str, int] = WIDTHS) -> dict[str, torch.Tensor]:
    return {name: random(NODE_TYPES[name], width, seed=width) for name, width in widths.items()}


def in_types(rows: torch.Tensor) -> dict[str, torch.Tensor]:
    return dict(zip(NODE_TYPES, rows.split([*NODE_TYPES.values()]), strict=True))


class ByType(nn.Module):
    """Two layers by relation; the first one gives lonely nodes, in which no edge ends, no rows."""

    def __init__(self, kind: str):
        super().__init__()
        torch.manual_seed(0)

        def conv(source: int, destination: int) -> nn.Module:
            if kind == "sage":
                return SAGEConv((source, destination), 4)
            return GATConv((source, destination), 4, add_self_loops=False)

        self.first = HeteroConv({one: conv(WIDTHS[one[0]], WIDTHS[one[2]]) for one in RELATIONS})
        self.last = HeteroConv({one: conv(4, 4) for one in RELATIONS if one[0] != "lonely"})
        self.double()

    def between(self, h):
        return {name: rows.relu() for name, rows in h.items()}

    def forward(self, h, edges):
        return self.last(self.between(self.first(h, edges)), edges)

    def inference_layers(self):
        return [
            lambda h, block: self.between(self.first(h, block.edge_index_dict)),
            lambda h, block: self.last(h, block.edge_index_dict),
        ]


def assert_same(rows: dict, expected: dict) -> None:
    assert list(rows) == [name for name in NODE_TYPES if name in expected]
    for name, of_type in expected.items():
        torch.testing.assert_close(rows[name], of_type.detach(), **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sage", "gat"])
def test_peers_10_layers_by_relation_equal_the_whole_graphs(kind, tmp_path):
    graph, x, model = typed_graph(), tables(), ByType(kind)
    store = hr.FeatureStore(node={name: {"x": rows} for name, rows in x.items()})
    expected = model(x, whole(graph)[2])
    assert list(expected) == ["a", "b"]
    for batch_size in (60, NUM_NODES):
        assert_same(hr.inference(model, graph, store, batch_size=batch_size), expected)
    mapped = hr.inference(model, graph, store, batch_size=50, out=tmp_path / "rows")
    assert_same(mapped, expected)
    assert sorted(one.name for one in (tmp_path / "rows").iterdir()) == ["a.npy", "b.npy"]
    assert [one.name for one in tmp_path.iterdir()] == ["rows"]
    assert np.array_equal(np.load(tmp_path / "rows" / "b.npy"), mapped["b"].numpy())


def test_peers_10_rgcn_equals_the_whole_graphs():
    """One tensor of all types in, one out: rows come by type in the end."""
    graph, x = typed_graph(), random(NUM_NODES, 6)
    torch.manual_seed(0)
    convs = nn.ModuleList(RGCNConv(6, 6, len(RELATIONS)) for _ in range(2)).double()
    edge_index, edge_type, _ = whole(graph)
    expected = in_types(convs[1](convs[0](x, edge_index, edge_type).relu(), edge_index, edge_type))

    def apply(number, h, block):
        return convs[number]((h, h[: block.num_dst]), block.edge_index, block.edge_types)

    layers = [lambda h, block: apply(0, h, block).relu(), lambda h, block: apply(1, h, block)]
    store = hr.FeatureStore(node={"x": x})
    assert_same(hr.inference(convs, graph, store, layers=layers, batch_size=70), expected)
    asked = {"b": [5, 0, 5], "lonely": torch.arange(10) % 2 == 0}
    rows = hr.inference(convs, graph, store, layers=layers, nodes=asked, batch_size=2)
    assert_same(rows, {"b": expected["b"][[5, 0, 5]], "lonely": expected["lonely"][::2]})
    none = torch.zeros(10, dtype=torch.bool)
    for asked in ({"b": [5, 0, 5], "lonely": none}, {"b": [], "lonely": none}):
        rows = hr.inference(convs, graph, store, layers=layers, nodes=asked, batch_size=2)
        assert_same(rows, {"b": expected["b"][asked["b"]], "lonely": expected["lonely"][:0]})


def test_types_without_features_are_looked_up_by_their_ids():
    """As examples/heterogeneous.py has it: rows by type in, one tensor of all between layers."""
    graph, x, ids = typed_graph(), tables({"a": 4}), random(NUM_NODES, 4, seed=9)
    convs = nn.ModuleList(RGCNConv(4, 4, len(RELATIONS)) for _ in range(2)).double()

    def inputs(h, block):
        out = torch.empty(block.num_src, 4, dtype=torch.float64)
        for name in NODE_TYPES:
            within = block.types.within(name)
            out[block.types.places(name)] = h["a"] if name == "a" else in_types(ids)[name][within]
        return out

    def apply(number, h, block):
        return convs[number]((h, h[: block.num_dst]), block.edge_index, block.edge_types)

    layers = [lambda h, block: apply(0, inputs(h, block), block), lambda h, block: apply(1, h, block)]
    edge_index, edge_type, _ = whole(graph)
    all_rows = torch.cat([x["a"], ids[len(x["a"]) :]])
    expected = in_types(convs[1](convs[0](all_rows, edge_index, edge_type), edge_index, edge_type))
    for store in (
        hr.FeatureStore(node={"a": {"x": x["a"]}}),
        hr.FeatureStore(node={"a": {"x": x["a"]}, "x": ids}),  # that of a type, although there is one of all nodes
    ):
        rows = hr.inference(convs, graph, store, layers=layers, node={"a": "x"}, batch_size=40)
        assert_same(rows, expected)


def test_a_type_without_nodes(tmp_path):
    graph = hr.Graph.from_coo(
        [0, 1, 2],
        [1, 2, 0],
        node_types={"none": 0, "a": 3},
        edge_types={("none", "to", "a"): 0, ("a", "to", "a"): 3, ("a", "to", "none"): 0},
    )
    store = hr.FeatureStore(node={"a": {"x": random(3, 2)}, "none": {"x": random(0, 2)}})
    torch.manual_seed(0)
    conv = HeteroConv({one: SAGEConv((2, 2), 2) for one in graph.edge_types.names}).double()
    x = {name: store.node[name, "x"].tensor for name in ("none", "a")}
    edges = whole(graph)[2]
    expected = conv(conv(x, edges), edges)
    for out in (None, tmp_path / "rows"):
        rows = hr.inference(conv, graph, store, layers=[lambda h, block: conv(h, block.edge_index_dict)] * 2, out=out)
        assert rows["none"].shape == (0, 2)
        torch.testing.assert_close(rows["a"], expected["a"].detach(), **CLOSE)


@pytest.mark.parametrize("edge", [{LIKES: ["e"]}, {"likes": "e"}])
def test_features_of_an_edge_type(edge):
    graph, x = typed_graph(), random(NODE_TYPES["a"], 3)
    count = len(graph.edge_types.id_range(LIKES))
    features = random(count, 2, seed=4)
    store = hr.FeatureStore(node={"a": {"x": x}}, edge={next(iter(edge)): {"e": features}})
    torch.manual_seed(0)
    conv = HeteroConv({LIKES: GATConv(3, 3, edge_dim=2, add_self_loops=False)}).double()
    edges = whole(graph)[2]
    expected = {"a": x}
    for _ in range(2):
        expected = conv(expected, edges, {LIKES: features})
    layers = [lambda h, block, e: conv(h, block.edge_index_dict, e)] * 2
    assert_same(hr.inference(conv, graph, store, layers=layers, edge=edge, batch_size=13), expected)


def test_blocks_of_relations_in_layers_of_headrace():
    graph, x = typed_graph(), random(NODE_TYPES["a"], 3)
    torch.manual_seed(0)
    convs = [hr.nn.SAGEConv(3, 3).double(), hr.nn.GATConv(3, 3, add_self_loops=False).double()]
    theirs = [SAGEConv(3, 3).double(), GATConv(3, 3, add_self_loops=False).double()]
    for own, other in zip(convs, theirs, strict=True):
        other.load_state_dict(own.state_dict())
    edges = whole(graph)[2]
    expected = {"a": theirs[1](theirs[0](x, edges[RELATIONS[0]]), edges[LIKES])}
    layers = [
        lambda h, block: {"a": convs[0](h["a"], block.relation(RELATIONS[0]))},
        lambda h, block: {"a": convs[1](h["a"], block.relation("likes"))},
    ]
    store = hr.FeatureStore(node={"a": {"x": x}})
    assert_same(hr.inference(nn.ModuleList(convs), graph, store, layers=layers, batch_size=13), expected)


def test_layers_that_say_none_for_types_without_messages():
    graph, x = typed_graph(), tables(dict.fromkeys(NODE_TYPES, 4))
    torch.manual_seed(0)
    conv = HGTConv(4, 4, ([*NODE_TYPES], [*RELATIONS]), heads=2).double()
    expected = conv(x, whole(graph)[2])
    store = hr.FeatureStore(node={name: {"x": rows} for name, rows in x.items()})

    def layer(h, block):
        return {"lonely": None, **conv(h, block.edge_index_dict)}  # as some versions of PyG have it

    rows = hr.inference(conv, graph, store, layers=[layer], batch_size=60)
    assert_same(rows, {name: expected[name] for name in ("a", "b")})


@pytest.mark.slow
@pytest.mark.parametrize("by_type", [False, True], ids=["tensors", "dictionaries between layers"])
def test_edge_types_alone(by_type, tmp_path):
    """All nodes are of one type then, of which nobody has to know."""
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_types={"up": 2, "down": 1})
    store = hr.FeatureStore(node={"x": random(3, 2)})
    conv = RGCNConv(2, 2, 2).double()

    def layer(h, block):
        h = h["node"] if isinstance(h, dict) else h
        out = conv((h, h[: block.num_dst]), block.edge_index, block.edge_types)
        return {"node": out} if by_type else out

    expected = store.node["x"].tensor
    for _ in range(2):
        expected = conv(expected, torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 0, 1])).detach()
    for nodes in (None, [2, 0, 2], torch.tensor([True, False, True]), {"node": [1]}):
        chosen = expected if nodes is None else expected[nodes["node"] if isinstance(nodes, dict) else nodes]
        for out in (None, tmp_path / "rows.npy"):
            options = {"nodes": nodes, "out": out, "overwrite": out is not None, "batch_size": 2}
            rows = hr.inference(conv, graph, store, layers=[layer, layer], **options)
            torch.testing.assert_close(rows, chosen, **CLOSE)
        assert np.array_equal(np.load(tmp_path / "rows.npy"), rows)
    assert [one.name for one in tmp_path.iterdir()] == ["rows.npy"]
    more = {"graph": graph, "store": store, "layers": [layer]}
    refused(hr.InputError, r"name of a \.npy file", out=tmp_path / "rows", **more)
    refused(hr.InputError, "a mask for 3 nodes", nodes=torch.ones(2, dtype=torch.bool), **more)
    refused(hr.InputError, "got pairs", nodes=torch.zeros(2, 2, dtype=torch.int64), **more)


def refused(error, match, layers=None, graph=None, store=None, **options):
    features = hr.FeatureStore(node={name: {"x": rows} for name, rows in tables().items()})
    layers = layers or [lambda h, block: h]
    with pytest.raises(error, match=match):
        hr.inference(nn.Identity(), graph or typed_graph(), store or features, layers=layers, **options)


def test_names_that_are_not_there():
    refused(hr.InputError, r"neither of all nodes nor of one of the types \['a', 'b', 'lonely'\]", node="z")
    refused(hr.InputError, "there is no node feature 'a', 'z'", node={"a": "z"})
    refused(hr.HeadraceError, "there is no node feature 'c', 'x'", node={"c": "x"})
    refused(hr.InputError, "names of node features by type, got none", node={})
    refused(hr.InputError, "there is no edge feature", edge={LIKES: "e"})
    short = hr.FeatureStore(node={"a": {"x": random(119, 2)}})
    refused(hr.InputError, "inference: .* 120 nodes, got 119 rows", store=short)
    other = hr.FeatureStore(node={"c": {"x": random(3, 2)}})
    refused(hr.InputError, "there is no type 'c'", store=other, node={"c": "x"})
    plain = hr.Graph.from_coo([0], [1])
    refused(hr.InputError, "the name of a node feature for Graph", graph=plain, node={"a": "x"})
    refused(hr.InputError, "names of edge features for Graph", graph=plain, edge={"a": "x"}, store=one_feature(2))


@pytest.mark.parametrize(
    ("edge", "match"),
    [
        ([(LIKES, "w"), "w"], "'w' of all edges or of edge types, got both"),
        (["w", (LIKES, "w")], "'w' of all edges or of edge types, got both"),
        (["w", "w"], "each edge feature once, got 'w' and 'w'"),
        ([(LIKES, "w"), ("likes", "w")], r"each edge feature once, got .*'likes', 'a'\), 'w'\) and \('likes', 'w'\)"),
    ],
)
def test_names_of_edge_features_that_are_one_argument(edge, match):
    graph = typed_graph()
    own = random(len(graph.edge_types.id_range(LIKES)), 2)
    store = hr.FeatureStore(
        node={"a": {"x": random(NODE_TYPES["a"], 2)}},
        edge={"w": random(graph.num_edges, 2), LIKES: {"w": own}, "likes": {"w": own}},
    )

    def layer(h, block, *edge):
        raise AssertionError("work has begun")

    refused(hr.InputError, match, layers=[layer], store=store, edge=edge)


def one_feature(num_nodes):
    return hr.FeatureStore(node={"x": random(num_nodes, 2)})


def test_nodes_that_cannot_be():
    refused(hr.InputError, r"expected nodes by type .* got list", nodes=[1, 2])
    refused(hr.InputError, r"expected nodes by type .* got dict", nodes={})
    refused(hr.InputError, "there is no type 'c'", nodes={"c": [0]})
    refused(hr.InputError, "120", nodes={"a": [120]})
    refused(hr.InputError, "a mask for 70 nodes", nodes={"b": torch.ones(120, dtype=torch.bool)})
    refused(hr.InputError, "got pairs", nodes={"a": torch.zeros(3, 2, dtype=torch.int64)})
    refused(hr.InputError, "got labels", nodes={"a": (torch.arange(3), torch.arange(3))})


def test_types_that_the_last_layer_gives_no_rows():
    refused(
        hr.InputError,
        r"last layer to return rows of 'b', .* got those of \['a'\]",
        layers=[lambda h, block: {"a": h["a"]}],
        nodes={"b": [0]},
    )


@pytest.mark.parametrize(
    ("layer", "match"),
    [
        (lambda h, block: {"c": h["a"]}, r"by node type, \['a', 'b', 'lonely'\], got some of 'c'"),
        (lambda h, block: {}, "by node type, .* got none"),
        (lambda h, block: {"a": h["a"][:-1]}, "destinations of type 'a' .or .* sources"),
        (lambda h, block: {"a": 3}, "of type 'a' .* got int"),
        (lambda h, block: h["a"], "destinations, .* or such by type, got float64"),
    ],
)
def test_what_is_no_rows_by_type(layer, match):
    refused(hr.InputError, rf"layer 0 to return .*{match}", layers=[layer])


def test_layers_that_count_degrees_in_the_batch():
    """Of one relation of several: each has its trial."""
    convs = {one: GCNConv(5, 5, add_self_loops=False).double() for one in RELATIONS[:2]}
    x = {"a": {"x": random(NODE_TYPES["a"], 5)}}
    for one, conv in convs.items():
        layers = [lambda h, block, one=one, conv=conv: {"a": conv(h["a"], block.edge_index_dict[one])}]
        refused(hr.InputError, "layer 0 to give a node the same row", layers=layers, store=hr.FeatureStore(node=x))


def test_what_layers_return_may_not_change_midway():
    calls = []

    def layer(h, block):
        calls.append(block)
        return h if len(calls) < last else {"a": h["a"]}

    last = 1000  # of no call, to count them: those before work starts, and five batches of 40 nodes
    features = hr.FeatureStore(node={name: {"x": rows} for name, rows in tables().items()})
    options = {"layers": [layer], "batch_size": 40}
    hr.inference(nn.Identity(), typed_graph(), features, **options)
    last = len(calls)
    calls.clear()
    refused(hr.InputError, r"rows by type as for the batch before, those of .* got those of \['a'\]", **options)


def test_places_where_rows_by_type_cannot_be(tmp_path):
    refused(hr.InputError, "a folder for a file of each node type", out=tmp_path / "rows.npy")
    (tmp_path / "there").mkdir()
    refused(hr.InputError, "it exists", out=tmp_path / "there")
    (tmp_path / "there" / "note.txt").write_text("kept")
    refused(hr.InputError, "expected rows of inference at", out=tmp_path / "there", overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["there"]
    (tmp_path / "there" / "note.txt").rename(tmp_path / "there" / "note.npy")
    refused(hr.InputError, "expected rows of inference at", out=tmp_path / "there", overwrite=True)
    (tmp_path / "there" / "note.npy").rename(tmp_path / "there" / "a.npy")
    graph, model = typed_graph(), ByType("sage")
    store = hr.FeatureStore(node={name: {"x": rows} for name, rows in tables().items()})
    rows = hr.inference(model, graph, store, nodes={"b": 3}, out=tmp_path / "there", overwrite=True)
    assert [one.name for one in (tmp_path / "there").iterdir()] == ["b.npy"]
    assert rows["b"].shape == (3, 4)
