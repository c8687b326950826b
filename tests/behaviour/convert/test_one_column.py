"""Features of one number for each node: the same shape and values from every place that they may come from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from part_files import write
from shell import main

import headrace as hr

AGES = np.arange(20, dtype=np.float32) / 2
SRC, DST = np.arange(21) % 20, (np.arange(21) * 7 + 1) % 20  # not as many edges as nodes


def converted(folder, *arguments):
    assert main(["convert", str(folder), str(folder / "data"), *arguments]) == 0
    data = hr.open_dataset(folder / "data")
    return data.graph, data.store


def of_memory(folder, ages=AGES):
    del folder
    return hr.Graph.from_coo(SRC, DST, num_nodes=20), hr.FeatureStore(node={"age": ages})


def of_arrays(folder):
    arrays = {"edge_index": np.stack([SRC, DST]), "age": AGES, "num_nodes": np.array(20)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return converted(folder)


def of_csv(folder, features="age"):
    (folder / "nodes.csv").write_text("id,age\n" + "".join(f"{node},{age}\n" for node, age in enumerate(AGES)))
    (folder / "edges.csv").write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in zip(SRC, DST, strict=True)))
    tables = ["--nodes", "nodes.csv", "--id", "id", "--edges", "edges.csv"]
    return converted(folder, *tables, "--features", features)


def of_parquet(folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"src": SRC, "dst": DST}), folder / "edges.parquet")
    parquet.write_table(pa.table({"age": AGES}), folder / "nodes.parquet")
    return converted(folder, "--nodes", "nodes.parquet", "--edges", "edges.parquet", "--features", "age")


def of_objects(folder):
    pyg = pytest.importorskip("torch_geometric.data")
    data = pyg.Data(edge_index=torch.tensor(np.stack([SRC, DST])), num_nodes=20, age=torch.tensor(AGES))
    hr.convert(data, folder / "data", progress=False)
    opened = hr.open_dataset(folder / "data")
    return opened.graph, opened.store


def of_shards(folder):
    graph, store = of_csv(folder)
    write(folder / "parts", graph, hr.Partition.hash(20, 1), store)
    shards = hr.open_dataset(folder / "parts", rank=0)
    return graph, shards.store


def batch_of(graph, store):
    plan = hr.ItemSampler(20, batch_size=8, shuffle=True, seed=1).sample_neighbor(graph, [3])
    return next(iter(plan.fetch_feature(store, node=["age"]).loader()))


@pytest.mark.parametrize("door", [of_memory, of_arrays, of_csv, of_parquet, of_objects, of_shards])
def test_one_number_for_each_node_is_one_dimension(door, tmp_path):
    batch = batch_of(*door(tmp_path))
    assert torch.equal(batch.node["age"], torch.tensor(AGES)[batch.n_id])
    assert batch.node["age"].dtype == torch.float32
    assert batch.to_pyg().age.shape == (len(batch.n_id),)


@pytest.mark.parametrize(
    "door", [lambda folder: of_memory(folder, AGES[:, None]), lambda folder: of_csv(folder, "age*")]
)
def test_columns_side_by_side_are_a_matrix_also_of_one(door, tmp_path):
    batch = batch_of(*door(tmp_path))
    assert torch.equal(batch.node["age"], torch.tensor(AGES)[batch.n_id, None])


@pytest.mark.parametrize("layer", [hr.nn.SAGEConv(1, 2), hr.nn.GCNConv(1, 2), hr.nn.GINConv(torch.nn.Linear(1, 2))])
def test_layers_name_what_makes_a_matrix_of_it(layer, tmp_path):
    batch = batch_of(*of_memory(tmp_path))
    with pytest.raises(hr.InputError, match=r"pass x\[:, None\]"):
        layer(batch.node["age"], batch.blocks[0])
    assert layer(batch.node["age"][:, None], batch.blocks[0]).shape == (8, 2)
