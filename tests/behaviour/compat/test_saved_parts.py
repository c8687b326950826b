"""ClusterData(save_dir=): parts of the graph at hand, or an error that says what differs."""

from __future__ import annotations

import shutil
import sys
import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData as TheirClusterData

import headrace as hr
from headrace.pyg import ClusterData, ClusterLoader


def cut(data, folder, num_parts=4, **options):
    return ClusterData(data, num_parts, save_dir=str(folder), log=False, **options)


def changed(data, **attributes) -> Data:
    other = data.clone()
    for name, value in attributes.items():
        other[name] = value
    return other


def one_edge_turned(data) -> torch.Tensor:
    edge_index = data.edge_index.clone()
    edge_index[:, -1] = torch.tensor([3, 4])
    return edge_index


@pytest.mark.parametrize("sparse_format", ["csr", "csc"])
@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda data: changed(data, x=torch.zeros(150, 3)), "those of 120 nodes, where 150 are wanted"),
        (lambda data: changed(data, edge_index=data.edge_index[:, 1:]), "those of 700 edges, where 699 are wanted"),
        (lambda data: changed(data, edge_index=data.edge_index.flip(0)), "of other edges, or in another order"),
        (lambda data: changed(data, edge_index=data.edge_index.flip(1)), "of other edges, or in another order"),
        (lambda data: changed(data, edge_index=one_edge_turned(data)), "of other edges, or in another order"),
    ],
)
def test_parts_of_another_graph_are_refused(data, tmp_path, other, text, sparse_format):
    del data.y, data.train_mask
    cut(data, tmp_path, sparse_format=sparse_format)
    with pytest.raises(hr.InputError, match=f"{text}; delete the file"):
        cut(other(data), tmp_path, sparse_format=sparse_format)
    cut(data, tmp_path, sparse_format=sparse_format)


@pytest.mark.parametrize("sparse_format", ["csr", "csc"])
def test_parts_are_compared_at_both_ends_of_edges(data, tmp_path, sparse_format):
    """The last edge of a row becomes the first of the next one: order and the other ends are as they were."""
    partition = cut(data, tmp_path, sparse_format=sparse_format).partition
    row = int(partition.indptr.diff().argmax())
    moved = data.edge_index.clone()
    end = 0 if sparse_format == "csr" else 1
    moved[end, partition.edge_perm[partition.indptr[row + 1] - 1]] = partition.node_perm[row + 1]
    with pytest.raises(hr.InputError, match="of other edges"):
        cut(changed(data, edge_index=moved), tmp_path, sparse_format=sparse_format)


def test_parts_in_another_form_are_refused(data, tmp_path):
    cut(data, tmp_path)
    with pytest.raises(hr.InputError, match="in the format 'csr', where 'csc' is wanted"):
        cut(data, tmp_path, sparse_format="csc")
    shutil.copytree(tmp_path / "part_4", tmp_path / "part_5")
    with pytest.raises(hr.InputError, match="those of 4 parts, where 5 are wanted"):
        cut(data, tmp_path, 5)
    torch.save({"a": 1}, tmp_path / "part_4" / "metis.pt")
    with pytest.raises(hr.InputError, match="got a dict"):
        cut(data, tmp_path)


def test_other_attributes_and_edges_between_clusters_are_no_other_graph(data, tmp_path):
    cut(data, tmp_path)
    clusters = cut(changed(data, x=data.x + 1), tmp_path, keep_inter_cluster_edges=True)
    seen = torch.cat([batch.x for batch in ClusterLoader(clusters)])
    assert seen[:, 0].sort().values.tolist() == (data.x[:, 0] + 1).tolist()


@pytest.mark.filterwarnings("ignore:Weights only load failed")  # of PyG's own class, by PyG
def test_files_are_pygs_own(data, tmp_path):
    """What it writes is checked as well, and it reads what is written here."""
    ours = cut(data, tmp_path)
    theirs = TheirClusterData(data, 4, save_dir=str(tmp_path), log=False)
    assert torch.equal(ours.partition.index, theirs.partition.index)
    del theirs.partition.made_by
    torch.save(theirs.partition, tmp_path / "part_4" / "metis.pt")
    cut(data, tmp_path)
    with pytest.raises(hr.InputError, match="of other edges"):
        cut(changed(data, edge_index=data.edge_index.flip(0)), tmp_path)


def test_parts_of_the_streaming_partition_are_named(data, tmp_path, monkeypatch):
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "pymetis", None)
        with pytest.warns(UserWarning, match="pymetis is not installed"):
            cut(data, tmp_path)
    with pytest.warns(UserWarning, match="streaming partition, .* delete the file for parts of METIS"):
        cut(data, tmp_path)
    (tmp_path / "part_4" / "metis.pt").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cut(data, tmp_path)
        cut(data, tmp_path)
