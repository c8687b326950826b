"""Folders as other libraries have them, each written from one small graph, with and without types."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np

import headrace as hr

BUYS, KNOWS = ("user", "buys", "item"), ("user", "knows", "user")
NUM_NODES, NUM_EDGES, USERS, ITEMS = 40, 200, 12, 15


class World:
    """A graph with features, labels, times and splits, as arrays, and as the objects of headrace."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.edges = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
        self.x = rng.random((NUM_NODES, 3)).astype(np.float32)
        self.y = rng.integers(0, 4, NUM_NODES)
        self.weight = rng.random(NUM_EDGES).astype(np.float32)
        self.wide = rng.random((NUM_EDGES, 2)).astype(np.float32)
        self.splits = {"train": np.arange(0, 20), "val": np.arange(20, 30), "test": np.arange(30, 40)}
        self.graph = hr.Graph.from_coo(*self.edges, num_nodes=NUM_NODES)
        self.store = hr.FeatureStore(node={"x": self.x, "y": self.y}, edge={"wide": self.wide})


class TypedWorld:
    """The same with types."""

    def __init__(self) -> None:
        rng = np.random.default_rng(6)
        self.edges = {
            BUYS: np.stack([rng.integers(0, USERS, 90), rng.integers(0, ITEMS, 90)]),
            KNOWS: rng.integers(0, USERS, (2, 50)),
        }
        self.x = {"user": rng.random((USERS, 2)).astype(np.float32), "item": rng.random((ITEMS, 4)).astype(np.float32)}
        self.y = rng.integers(0, 3, ITEMS)
        self.train = np.array([3, 1, 4, 9, 5, 14])
        self.graph = hr.Graph.from_coo(self.edges, num_nodes={"item": ITEMS, "user": USERS})
        self.store = hr.FeatureStore(
            node={"user": {"x": self.x["user"]}, "item": {"x": self.x["item"], "y": self.y}},
        )


def write_gz(path: Path, rows: np.ndarray, header: list[str] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([] if header is None else [header])
        writer.writerows(np.asarray(rows).reshape(len(rows), -1).tolist())


def write_npy(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def ogb(folder: Path) -> None:
    world, raw = World(), folder / "raw"
    write_gz(raw / "edge.csv.gz", world.edges.T)
    write_gz(raw / "num-node-list.csv.gz", np.array([NUM_NODES]))
    write_gz(raw / "num-edge-list.csv.gz", np.array([NUM_EDGES]))
    write_gz(raw / "node-feat.csv.gz", world.x.astype(np.float64))
    write_gz(raw / "node-label.csv.gz", world.y)
    write_gz(raw / "edge-feat.csv.gz", world.wide.astype(np.float64))
    for theirs, ours in (("train", "train"), ("valid", "val"), ("test", "test")):
        write_gz(folder / "split/time" / f"{theirs}.csv.gz", world.splits[ours])


def ogb_binary(folder: Path, save=np.savez_compressed) -> None:
    world, raw = World(), folder / "raw"
    raw.mkdir(parents=True)
    counts = {"num_nodes_list": np.array([NUM_NODES]), "num_edges_list": np.array([NUM_EDGES])}
    save(raw / "data.npz", edge_index=world.edges, node_feat=world.x, node_year=np.arange(NUM_NODES)[:, None], **counts)
    save(raw / "node-label.npz", node_label=world.y[:, None].astype(np.float32))
    for theirs, ours in (("train", "train"), ("valid", "val"), ("test", "test")):
        write_gz(folder / "split/time" / f"{theirs}.csv.gz", world.splits[ours])


def ogb_typed(folder: Path) -> None:
    world, raw = TypedWorld(), folder / "raw"
    write_gz(raw / "num-node-dict.csv.gz", np.array([[USERS, ITEMS]]), ["user", "item"])
    raw.mkdir(exist_ok=True)
    with gzip.open(raw / "triplet-type-list.csv.gz", "wt") as file:
        file.writelines(",".join(name) + "\n" for name in world.edges)
    for name, edges in world.edges.items():
        write_gz(raw / "relations" / "___".join(name) / "edge.csv.gz", edges.T)
        write_gz(raw / "relations" / "___".join(name) / "num-edge-list.csv.gz", np.array([edges.shape[1]]))
    for name, rows in world.x.items():
        write_gz(raw / "node-feat" / name / "node-feat.csv.gz", rows.astype(np.float64))
    write_gz(raw / "node-label/item/node-label.csv.gz", world.y)
    write_gz(folder / "split/time/item/train.csv.gz", world.train)


def mag240m(folder: Path) -> None:
    world = TypedWorld()
    for name, edges in world.edges.items():
        write_npy(folder / "processed" / "___".join(name).replace("item", "paper") / "edge_index.npy", edges)
    for name, rows in world.x.items():
        write_npy(folder / "processed" / name.replace("item", "paper") / "node_feat.npy", rows.astype(np.float16))
    labels = np.where(np.arange(ITEMS) < 5, np.nan, world.y).astype(np.float32)
    write_npy(folder / "processed/paper/node_label.npy", labels)
    write_npy(folder / "split/train.npy", world.train)


def graphbolt(folder: Path) -> None:
    world = World()
    for name, array in (("edges", world.edges), ("x", world.x), ("y", world.y), ("wide", world.wide)):
        write_npy(folder / f"data/{name}.npy", array)
    for name, ids in world.splits.items():
        write_npy(folder / f"set/{name}.npy", ids)
    sets = "".join(
        f"    {theirs}:\n      - data:\n          - name: seeds\n            format: numpy\n"
        f"            path: set/{ours}.npy\n"
        for theirs, ours in (("train_set", "train"), ("validation_set", "val"), ("test_set", "test"))
    )
    (folder / "metadata.yaml").write_text(
        f"""dataset_name: plain  # made by a test
graph:
  nodes:
    - num: {NUM_NODES}
  edges:
    - format: numpy
      path: data/edges.npy
feature_data:
  - domain: node
    name: x
    format: numpy
    in_memory: false
    path: data/x.npy
  - {{domain: node, name: y, format: numpy, path: data/y.npy}}
  - domain: edge
    name: wide
    format: numpy
    path: data/wide.npy
tasks:
  - name: "node_classification"
    num_classes: 4
{sets}"""
    )


def graphbolt_typed(folder: Path) -> None:
    world = TypedWorld()
    (folder / "edges").mkdir(parents=True)
    np.savetxt(folder / "edges/buys.csv", world.edges[BUYS].T, fmt="%d", delimiter=",")
    np.savetxt(folder / "edges/knows.csv", world.edges[KNOWS].T, fmt="%d", delimiter=",")
    for name, rows in world.x.items():
        write_npy(folder / f"{name}.npy", rows)
    write_npy(folder / "y.npy", world.y)
    write_npy(folder / "train.npy", world.train)
    (folder / "metadata.yaml").write_text(
        f"""
graph:
  nodes: [{{type: user, num: {USERS}}}, {{type: item, num: {ITEMS}}}]
  edges:
  - type: "user:buys:item"
    format: csv
    path: edges/buys.csv
  - type: "user:knows:user"
    format: csv
    path: edges/knows.csv
feature_data:
- {{domain: node, type: user, name: x, format: numpy, path: user.npy}}
- {{domain: node, type: item, name: x, format: numpy, path: item.npy}}
- {{domain: node, type: item, name: y, format: numpy, path: y.npy}}
tasks:
- name: one
  train_set:
  - type: item
    data:
    - name: seeds
      format: numpy
      path: train.npy
"""
    )


def dgl_csv(folder: Path) -> None:
    world = World()
    folder.mkdir()
    (folder / "meta.yaml").write_text(
        "dataset_name: plain\nedge_data:\n- file_name: edges.csv\nnode_data:\n- file_name: nodes.csv\n"
    )
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["src_id", "dst_id", "wide"])
        for src, dst, row in zip(*world.edges.tolist(), world.wide.astype(float).tolist(), strict=True):
            writer.writerow([src, dst, ",".join(map(repr, row))])
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["node_id", "x", "label", *(f"{name}_mask" for name in world.splits)])
        for node in range(NUM_NODES):
            masks = [bool((ids == node).any()) for ids in world.splits.values()]
            row = ",".join(map(repr, world.x[node].astype(float).tolist()))
            writer.writerow([node, row, world.y[node], *masks])


def gconstruct(folder: Path) -> None:
    world = TypedWorld()
    folder.mkdir()
    for name, rows in world.x.items():
        head = ["id", *(f"f{place}" for place in range(rows.shape[1])), *(["y"] if name == "item" else [])]
        columns = [np.arange(len(rows)), *rows.astype(float).T, *([world.y] if name == "item" else [])]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [head, *([repr(one.item()) for one in row] for row in zip(*columns, strict=True))]
            )
    for name, edges in world.edges.items():
        with (folder / f"{name[1]}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["s", "d"], *edges.T.tolist()])
    with (folder / "train.csv").open("w") as file:
        file.writelines(["id\n", *(f"{one}\n" for one in world.train)])
    form = {"format": {"name": "csv", "separator": ","}}
    labels = [
        {
            "task_type": "classification",
            "label_col": "y",
            "custom_split_filenames": {"train": "train.csv", "column": ["id"]},
        }
    ]
    nodes = [
        {
            "node_type": name,
            "files": [f"{name}.csv"],
            **form,
            "node_id_col": "id",
            "features": [{"feature_col": [f"f{place}" for place in range(rows.shape[1])], "feature_name": "x"}],
            **({"labels": labels} if name == "item" else {}),
        }
        for name, rows in world.x.items()
    ]
    edges = [
        {"relation": list(name), "files": f"{name[1]}.csv", **form, "source_id_col": "s", "dest_id_col": "d"}
        for name in world.edges
    ]
    (folder / "build.json").write_text(json.dumps({"version": "gconstruct-v0.1", "nodes": nodes, "edges": edges}))


def toml(folder: Path) -> None:
    world = TypedWorld()
    folder.mkdir()
    for name, rows in world.x.items():
        write_npy(folder / f"{name}_x.npy", rows)
    write_npy(folder / "y.npy", world.y)
    for name, edges in world.edges.items():
        write_npy(folder / f"{name[1]}.npy", edges)
    write_npy(folder / "train.npy", world.train)
    (folder / "graph.toml").write_text(
        """
[nodes.user]
columns = { x = "user_x.npy" }
features = "x"
[nodes.item]
columns = { x = "item_x.npy", y = "y.npy" }
features = ["x"]
labels = "y"
[edges."user,buys,item"]
columns = { src = ["buys.npy", 0], dst = ["buys.npy", 1] }
[edges."user,knows,user"]
columns = { src = ["knows.npy", 0], dst = ["knows.npy", 1] }
[items.train]
files = "train.npy"
ids = "train"
type = "item"
"""
    )


def arrays(folder: Path, *, archive: bool = False, csc: bool = False) -> Path:
    world = World()
    masks = {f"{name}_mask": np.isin(np.arange(NUM_NODES), ids) for name, ids in world.splits.items()}
    own = {"x": world.x, "y": world.y, "edge_weight": world.weight, **masks}
    if csc:
        order = np.argsort(world.edges[1], kind="stable")
        own |= {"indices": world.edges[0][order], "edge_weight": world.weight[order]}
        own["indptr"] = np.searchsorted(world.edges[1][order], np.arange(NUM_NODES + 1))
    else:
        own["edge_index"] = world.edges
    folder.mkdir()
    if archive:
        np.savez_compressed(folder / "graph.npz", **own)
        return folder / "graph.npz"
    for name, array in own.items():
        np.save(folder / f"{name}.npy", array)
    return folder
