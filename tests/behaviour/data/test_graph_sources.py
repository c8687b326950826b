from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

scipy_sparse = pytest.importorskip("scipy.sparse")


def types_of(counts):
    """Types as the nodes of a graph have them."""
    return hr.Graph.from_coo([], [], node_types=counts).node_types


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "lil"])
def test_from_scipy_rows_send_to_columns(layout):
    dense = np.array([[0, 2.0, 0], [0, 0, 3.0], [4.0, 5.0, 0]])
    graph = hr.Graph.from_scipy(scipy_sparse.coo_array(dense).asformat(layout))
    for dst in range(3):
        column = slice(int(graph.indptr[dst]), int(graph.indptr[dst + 1]))
        got = dict(zip(graph.indices[column].tolist(), graph.edge_attrs_csc["weight"][column].tolist(), strict=True))
        assert got == {src: dense[src, dst] for src in range(3) if dense[src, dst]}
    assert graph.edge_attrs["weight"].dtype == torch.float64


def test_from_scipy_edge_ids_are_positions_in_data():
    matrix = scipy_sparse.csr_matrix(([1.0, 2.0, 3.0], [1, 0, 1], [0, 1, 3]), shape=(2, 2))
    graph = hr.Graph.from_scipy(matrix)
    assert graph.edge_attrs_csc["weight"].tolist() == matrix.data[graph.edge_ids.numpy()].tolist()
    assert graph.edge_attrs["weight"].tolist() == matrix.data.tolist()


class TestPyg:
    @pytest.fixture(autouse=True)
    def torch_geometric(self):
        return pytest.importorskip("torch_geometric")

    def test_homogeneous(self):
        from torch_geometric.data import Data

        data = Data(
            x=torch.zeros(4, 2),
            edge_index=torch.tensor([[0, 1, 2], [2, 0, 0]]),
            edge_attr=torch.tensor([[1.0], [2.0], [3.0]]),
            edge_weight=torch.tensor([1, 2, 3], dtype=torch.int16),
        )
        graph = hr.Graph.from_pyg(data)
        assert graph.num_nodes == 4
        assert graph.indptr.tolist() == [0, 2, 2, 3, 3]
        assert graph.indices.tolist() == [1, 2, 0]
        assert graph.edge_ids.tolist() == [1, 2, 0]
        assert graph.edge_attrs_csc["edge_attr"].tolist() == [[2.0], [3.0], [1.0]]
        assert torch.equal(graph.edge_attrs["edge_attr"], data.edge_attr)
        assert graph.edge_attrs["edge_weight"].dtype == torch.int16
        assert list(hr.Graph.from_pyg(data, edge_attrs=["edge_weight"]).edge_attrs) == ["edge_weight"]
        assert not hr.Graph.from_pyg(data, edge_attrs=[]).edge_attrs

    def hetero(self):
        from torch_geometric.data import HeteroData

        data = HeteroData()
        data["movie"].num_nodes = 3
        data["actor"].num_nodes = 2
        data["movie", "to", "actor"].edge_index = torch.tensor([[0, 2, 1], [1, 0, 1]])
        data["actor", "to", "movie"].edge_index = torch.tensor([[0, 1], [2, 0]])
        return data

    def test_heterogeneous_types_share_one_id_space(self):
        data = self.hetero()
        data["movie", "to", "actor"].edge_weight = torch.tensor([1.0, 2.0, 3.0])
        data["actor", "to", "movie"].edge_weight = torch.tensor([4.0, 5.0])
        graph = hr.Graph.from_pyg(data)
        assert graph.node_types == types_of({"movie": 3, "actor": 2})
        assert graph.edge_types is not None
        assert graph.edge_types.names == (("movie", "to", "actor"), ("actor", "to", "movie"))
        edges = set()
        dst = torch.repeat_interleave(torch.arange(5), graph.in_degrees())
        for edge in zip(
            graph.indices.tolist(),
            dst.tolist(),
            graph.edge_ids.tolist(),
            graph.edge_attrs_csc["edge_weight"].tolist(),
            strict=True,
        ):
            edges.add(edge)
        assert edges == {(0, 4, 0, 1.0), (2, 3, 1, 2.0), (1, 4, 2, 3.0), (3, 2, 3, 4.0), (4, 0, 4, 5.0)}

    def test_labels_of_other_edges_are_left_out_unless_asked_for(self):
        from torch_geometric.data import Data

        data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, edge_attr=torch.ones(3))
        data.edge_label_index = torch.tensor([[0], [2]])
        data.edge_label = torch.tensor([1.0])
        assert set(hr.Graph.from_pyg(data).edge_attrs) == {"edge_attr"}
        with pytest.raises(hr.InputError, match="edge_label"):
            hr.Graph.from_pyg(data, edge_attrs=["edge_label"])

    def test_a_node_type_of_unknown_size_is_named(self):
        from torch_geometric.data import HeteroData

        data = HeteroData()
        data["b"].num_nodes = 2
        data["a", "to", "b"].edge_index = torch.tensor([[0], [1]])
        with (
            pytest.warns(UserWarning, match="num_nodes"),
            pytest.raises(hr.InputError, match="expected a number of nodes of type 'a'"),
        ):
            hr.Graph.from_pyg(data)

    def test_edge_attributes_that_disagree_are_refused_until_chosen(self):
        data = self.hetero()
        data["movie", "to", "actor"].edge_weight = torch.tensor([1.0, 2.0, 3.0])
        data["actor", "to", "movie"].edge_weight = torch.tensor([4, 5])
        with pytest.raises(hr.InputError, match="one dtype and one row shape"):
            hr.Graph.from_pyg(data)
        assert hr.Graph.from_pyg(data, edge_attrs=[]).num_edges == 5

    def test_refuses(self):
        from torch_geometric.data import Data

        with pytest.raises(hr.InputError, match="expected a torch_geometric Data or HeteroData, got dict"):
            hr.Graph.from_pyg({})
        with pytest.raises(hr.InputError, match=r"expected data\.edge_index"):
            hr.Graph.from_pyg(Data(x=torch.zeros(2, 1)))
        with pytest.raises(hr.InputError, match=r"no edge attributes \['time'\]; those that exist are \['edge_attr'\]"):
            hr.Graph.from_pyg(
                Data(edge_index=torch.tensor([[0], [0]]), edge_attr=torch.ones(1), num_nodes=1), edge_attrs=["time"]
            )
        data = self.hetero()
        data["movie", "likes", "movie"].weight = torch.ones(1)
        with pytest.raises(hr.InputError, match=r"\.edge_index or data\["):
            hr.Graph.from_pyg(data)


def test_from_dgl_refuses_other_objects():
    with pytest.raises(hr.InputError, match=r"expected a dgl\.DGLGraph, got list"):
        hr.Graph.from_dgl([])


@pytest.mark.parametrize("counts", [{"a": 2, "b": 3}, types_of({"a": 2, "b": 3})], ids=["counts", "offsets"])
def test_counts_of_types_say_how_many_nodes_there_are(counts):
    graph = hr.Graph.from_coo([0], [1], node_types=counts)
    assert graph == hr.Graph.from_coo([0], [1], num_nodes=5, node_types=counts)
    assert hr.Graph.from_coo([], [], node_types=counts).num_nodes == 5


@pytest.mark.parametrize("name", ["edge_weight", "edge_time", "time"])
def test_attributes_of_another_length_are_named_as_left_out(name):
    pyg = pytest.importorskip("torch_geometric.data")

    data = pyg.Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=4)
    for length in (3, 4) if name == "time" else (3,):
        data[name] = torch.ones(length)
        graph = hr.Graph.from_pyg(data)
        assert name in (graph.edge_attrs if length == 3 else graph.node_attrs)
    data[name] = torch.ones(2)
    with pytest.warns(UserWarning, match=rf"left out \['{name}'\].* rows, got float32\[2\]") as caught:
        assert not hr.Graph.from_pyg(data).edge_attrs
    assert caught[0].filename == __file__
    assert not hr.Graph.from_pyg(data, edge_attrs=[], node_attrs=[]).edge_attrs
    typed = pyg.HeteroData()
    typed["movie"].num_nodes, typed["actor"].num_nodes = 3, 2
    typed["movie", "to", "actor"].edge_index = torch.tensor([[0, 2, 1], [1, 0, 1]])
    typed["movie", "to", "actor"][name] = torch.ones(2)
    with pytest.warns(UserWarning, match=rf"left out .*{name} of \('movie', 'to', 'actor'\) with 3 rows"):
        hr.Graph.from_pyg(typed)
    typed["movie"].time = torch.ones(2)
    with pytest.warns(UserWarning, match=r"time of movie with 3 rows, got float32\[2\]"):
        hr.Graph.from_pyg(typed)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_from_pyg_takes_adj_t_with_its_values(layout):
    """Rows are destinations; an entry that is there twice is two edges."""
    pyg_data = pytest.importorskip("torch_geometric.data")
    indices, values = torch.tensor([[0, 2, 2, 1], [1, 0, 0, 2]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    matrix = torch.sparse_coo_tensor(indices, values, (3, 3))
    if layout != "coo":
        matrix = torch.sparse_coo_tensor(indices, values, (3, 3)).coalesce()
        matrix = matrix.to_sparse_csr() if layout == "csr" else matrix.to_sparse_csc()
    graph = hr.Graph.from_pyg(pyg_data.Data(num_nodes=3, adj_t=matrix))
    dst = torch.arange(3).repeat_interleave(graph.in_degrees())
    found = sorted(zip(graph.indices.tolist(), dst.tolist(), graph.edge_attrs_csc["edge_weight"].tolist(), strict=True))
    twice = [(0, 2, 2.0), (0, 2, 3.0)] if layout == "coo" else [(0, 2, 5.0)]
    assert found == [*twice, (1, 0, 1.0), (2, 1, 4.0)]
    typed = pyg_data.HeteroData()
    typed["a"].num_nodes, typed["b"].num_nodes = 3, 3
    typed["a", "to", "b"].adj_t = matrix
    assert hr.Graph.from_pyg(typed).num_edges == graph.num_edges


def test_from_pyg_asks_for_edges():
    pyg_data = pytest.importorskip("torch_geometric.data")
    with pytest.raises(hr.InputError, match=r"expected data\.edge_index or data\.adj_t, got neither"):
        hr.Graph.from_pyg(pyg_data.Data(num_nodes=3))
