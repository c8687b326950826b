"""Times, weights and other attributes that only some types have."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

pytest.importorskip("torch_geometric")
from torch_geometric.data import Data, HeteroData

ALWAYS = torch.iinfo(torch.int64).min
OF, REV = ("event", "of", "user"), ("user", "rev", "event")


def relational(**of_events):
    """Return a graph of events of users, where events alone have times."""
    data = HeteroData()
    data["user"].num_nodes, data["event"].num_nodes = 20, 50
    data["event"].time = torch.arange(50)
    data[OF].edge_index = torch.stack([torch.arange(50), torch.arange(50) % 20])
    data[REV].edge_index = data[OF].edge_index.flip(0)
    for name, value in of_events.items():
        data[OF][name] = value
    return data


def test_nodes_without_a_time_have_always_been_there():
    times = hr.Graph.from_pyg(relational()).node_attrs["time"]
    assert times[:20].eq(ALWAYS).all()
    assert times[20:].tolist() == list(range(50))
    data = relational()
    data["event"].time = torch.arange(50.0)
    times = hr.Graph.from_pyg(data).node_attrs["time"]
    assert times.dtype == torch.float32
    assert times[:20].eq(-torch.inf).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_times_have_room_for_that(dtype):
    data = relational(time=torch.arange(50).to(dtype))
    data["event"].time = data["event"].time.to(dtype)
    graph = hr.Graph.from_pyg(data)
    assert graph.node_attrs["time"].dtype == graph.edge_attrs["time"].dtype == torch.int64
    assert graph.edge_attrs["time"].tolist() == [*range(50), *([ALWAYS] * 50)]


def test_times_of_other_types_in_the_widest_of_their_kind():
    data = relational()
    data["user"].time = torch.full((20,), 3, dtype=torch.int32)
    assert hr.Graph.from_pyg(data).node_attrs["time"].tolist() == [*([3] * 20), *range(50)]
    data["user"].time = torch.full((20,), 0.5)
    assert hr.Graph.from_pyg(data).node_attrs["time"].dtype == torch.float64


@pytest.mark.parametrize("strictly_before", [False, True])
def test_no_event_is_later_than_its_seed(strictly_before):
    graph = hr.Graph.from_pyg(relational())
    items = hr.ItemSampler({"user": torch.arange(20)}, time=torch.full((20,), 25), batch_size=20)
    plan = items.sample_neighbor(graph, [-1, -1], time="time", strictly_before=strictly_before)
    batch = next(iter(plan.loader())).to_pyg()
    last = 25 - strictly_before
    assert sorted(set(batch["event"].n_id.tolist())) == list(range(last + 1))
    assert batch[REV].edge_index.shape[1] == last + 1


def test_seeds_without_a_time_of_their_own_are_asked_for_one():
    graph = hr.Graph.from_pyg(relational())

    def sample(source):
        return source.sample_neighbor(graph, [3], time="time")

    with pytest.raises(
        hr.InputError, match="nodes of type 'user' have no 'time' of their own; pass them to the source"
    ):
        sample(hr.ItemSampler({"user": torch.arange(20)})).loader()
    with pytest.raises(hr.InputError, match="nodes of type 'user' have no 'time' of their own"):
        list(sample(hr.ItemSampler({"event": [3], "user": [2]}, time="time")).loader())
    assert len(list(sample(hr.ItemSampler({"event": torch.arange(50)}, batch_size=50)).loader())) == 1


@pytest.mark.parametrize("name", ["weight", "edge_weight"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_edges_without_a_weight_count_1(name, dtype):
    weight = torch.arange(50).to(dtype)
    graph = hr.Graph.from_pyg(relational(**{name: weight}))
    assert graph.edge_attrs[name].dtype == dtype
    assert graph.edge_attrs[name].tolist() == [*weight.tolist(), *([1] * 50)]
    batch = next(iter(hr.ItemSampler({"user": [0]}).sample_neighbor(graph, [9], weight=name).loader()))
    assert batch.blocks[0].edge_ids.tolist() == [20, 40]  # the first one weighs nothing


def test_other_attributes_are_left_out_with_a_warning_or_filled_in():
    data = relational(edge_attr=torch.rand(50, 2), kind=torch.arange(50))
    with (
        pytest.warns(
            UserWarning, match="left out edge attribute 'kind', which .*'rev'.*edge_attrs=.'kind': 0.0"
        ) as got,
        pytest.warns(UserWarning, match="left out edge attribute 'edge_attr', which"),
    ):
        assert not hr.Graph.from_pyg(data).edge_attrs
    assert got[0].filename == __file__
    assert not hr.Graph.from_pyg(data, edge_attrs=[]).edge_attrs
    with pytest.raises(
        hr.InputError, match=r"'kind' on every edge type, got none on \[\('user', 'rev', 'event'\)\]; add"
    ):
        hr.Graph.from_pyg(data, edge_attrs=["kind"])
    graph = hr.Graph.from_pyg(data, edge_attrs={"kind": -3, "edge_attr": 0.5})
    assert graph.edge_attrs["kind"].tolist() == [*range(50), *([-3] * 50)]
    assert torch.equal(graph.edge_attrs["edge_attr"], torch.cat([data[OF].edge_attr, torch.full((50, 2), 0.5)]))
    with pytest.raises(hr.InputError, match="expected a whole number for edge attribute 'kind' of"):
        hr.Graph.from_pyg(data, edge_attrs={"kind": 0.5})
    data["event"].rank = torch.arange(50.0)
    with pytest.raises(hr.InputError, match=r"'rank' on every node type, got none on \['user'\]"):
        hr.Graph.from_pyg(data, edge_attrs=[], node_attrs=["rank"])
    of_nodes = hr.Graph.from_pyg(data, edge_attrs=[], node_attrs={"rank": 7}).node_attrs
    assert of_nodes["rank"].tolist() == [*([7] * 20), *range(50)]


def test_a_name_alone_is_taken():
    edges = torch.tensor([[0, 1], [1, 2]])
    made = hr.Graph.from_pyg(Data(num_nodes=3, edge_index=edges, w=torch.ones(2), v=torch.ones(2)), edge_attrs="w")
    assert list(made.edge_attrs) == ["w"]


def test_times_that_have_not_a_row_for_each_node_are_refused():
    data = relational()
    data["user"].time = torch.arange(19)
    with pytest.raises(hr.InputError, match=r"'time' with a row for each node.*got it of 1 of 2 and not of \['user'\]"):
        hr.Graph.from_pyg(data)


def test_arrays_of_numpy_are_taken():
    data = relational(edge_weight=np.arange(50.0))
    data["event"].time = np.arange(50)
    graph = hr.Graph.from_pyg(data)
    assert graph.node_attrs["time"][20:].tolist() == list(range(50))
    assert graph.edge_attrs["edge_weight"].tolist() == [*map(float, range(50)), *([1.0] * 50)]


def test_the_loaders_with_the_names_of_pyg_take_them_too():
    from headrace.pyg import NeighborLoader

    data = relational(prob=torch.arange(50), when=torch.arange(50, dtype=torch.int32))
    (batch,) = NeighborLoader(data, [2, 2], ("user", torch.tensor([0])), weight_attr="prob", seed=1)
    assert batch[OF].e_id.tolist() == [20, 40]
    assert batch[REV].edge_index.shape[1] == 2
    for name in ("when", "time"):
        (batch,) = NeighborLoader(
            data, [-1, -1], ("user", torch.arange(20)), torch.full((20,), 25), time_attr=name, batch_size=20
        )
        assert batch["event"].n_id.max() == 25
        assert batch[REV].edge_index.shape[1] == 26
