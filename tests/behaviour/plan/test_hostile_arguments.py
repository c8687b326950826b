"""Arguments of another kind are refused by name: no error comes from inside, and nothing is taken for another thing."""

from __future__ import annotations

import pytest
import torch
from hostile_calls import CALLS as OTHERS
from hostile_calls import ODD, OUT_OF_RANGE

import headrace as hr

from plans import graph, items, store

ENDS = (torch.tensor([0, 1]), torch.tensor([1, 0]))
SIZES = {"gpus": 1, "gpu_memory": (1 << 20,)}

#: A call, and the kinds that are right for it.
CALLS = {
    "edge_attrs": (lambda value: hr.Graph.from_coo(*ENDS, edge_attrs=value), {"none"}),
    "node_attrs": (lambda value: hr.Graph.from_csc([0, 1], [0], node_attrs=value), {"none"}),
    "node_types": (lambda value: hr.Graph.from_coo(*ENDS, num_nodes=2, node_types=value), {"none", "mapping"}),
    "edge_types": (lambda value: hr.Graph.from_coo(*ENDS, edge_types=value), {"none", "mapping"}),
    "time of a graph": (lambda value: hr.Graph.from_coo(*ENDS, time=value), {"none"}),
    "data of PyG": (hr.Graph.from_pyg, set()),
    "shard": (lambda value: graph().shard(value, 0), set()),
    "fill": (lambda value: graph().with_self_loops(value), {"none", "number", "infinite", "no dimension"}),
    "metis": (lambda value: hr.Partition.louvain(value, 2), {"graph"}),
    "stream": (lambda value: hr.Partition.stream(value, 2), {"graph"}),
    "node": (lambda value: items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=value).loader(), set()),
    "expand": (lambda value: items().sample_neighbor(graph(), [2], expand=value), set()),
    "strategy": (lambda value: items().sample_neighbor(graph(), [2], strategy=value), set()),
    "importance": (lambda value: items().sample_layer_neighbor(graph(), [2], importance=value), set()),
    "batch_dependency": (
        lambda value: items().sample_layer_neighbor(graph(), [2], batch_dependency=value),
        {"infinite"},
    ),
    "per": (lambda value: items().exclude_seed_edges(per=value), set()),
    "by": (lambda value: items().exclude_seed_edges(by=value), set()),
    "mode": (lambda value: items().sample_uniform_negative(graph(), ratio=1, mode=value), set()),
    "fanouts": (lambda value: items().sample_neighbor(graph(), value), set()),
    "machine": (lambda value: items().loader(machine=value), {"none"}),
    "epochs": (lambda value: list(items().loader().epochs(value)), set()),
    "store of caches": (lambda value: hr.cached(value, node=["x"], bytes=100), {"store"}),
    "node of caches": (lambda value: hr.cached(store(), node=value, bytes=1 << 20), {"none"}),
    "policy": (lambda value: hr.cached(store(), node=["x"], bytes=1 << 20, policy=value), {"none"}),
    "store of tiers": (lambda value: hr.plan_tiers(value, graph(), hr.Machine(**SIZES)), {"store"}),
    "graph of tiers": (lambda value: hr.plan_tiers(store(), value, hr.Machine(**SIZES)), {"graph"}),
    "machine of tiers": (lambda value: hr.plan_tiers(store(), graph(), value), {"none"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_another_kind_are_refused_by_name(name):
    call, right = CALLS[name]
    for kind, make in ODD.items():
        if kind not in right:
            with pytest.raises((hr.HeadraceError, ImportError)) as caught:
                call(make())
            message = str(caught.value)
            assert any(word in message for word in ("got", "there is no")), (kind, message)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("name", OTHERS)
def test_no_error_comes_from_inside(name):
    """What is not right is refused by headrace; a value may be right, or lack a library."""
    for kind, make in {**ODD, **OUT_OF_RANGE}.items():
        value = make()
        try:
            OTHERS[name](value)
        except (hr.HeadraceError, ImportError) as error:
            message = str(error)
            assert any(word in message for word in ("got", "expected", "there is no")), (kind, message)
        except Exception as error:  # noqa: BLE001 - whatever else it is
            pytest.fail(f"{kind}: {type(error).__name__}: {error}")


def test_a_fill_is_what_attributes_can_hold():
    edges = torch.tensor([0, 1]), torch.tensor([1, 0])
    whole = hr.Graph.from_coo(*edges, edge_attrs={"count": torch.tensor([1, 2], dtype=torch.uint8)})
    for fill in (0.5, 256, -1, float("nan")):
        with pytest.raises(hr.InputError, match=r"edge_attrs\['count'\] can hold, which is uint8, got "):
            whole.with_self_loops(fill)
    assert whole.with_self_loops(255).edge_attrs["count"].tolist() == [1, 2, 255, 255]
