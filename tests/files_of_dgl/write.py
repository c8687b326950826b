"""Writes the files beside it, by DGL 2.1: two graphs that it has cut, and two that GraphBolt has preprocessed.

Run it in this folder, `OMP_NUM_THREADS=1 ../../.venv-dgl/bin/python write.py`; `edges.json` has the edges by their ids,
which features "id" of nodes and edges have.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dgl
import dgl.graphbolt
import numpy as np
import torch
import yaml

NODES = {"user": 9, "item": 7}
COUNTS = {("user", "buys", "item"): 25, ("item", "of", "user"): 15}
NUM_NODES, NUM_EDGES = 12, 30


def ends(generator: np.random.Generator) -> dict[str, list[list[int]]]:
    """Return pairs of ends by the name of a type, and of all edges of the graph without types."""
    draw = generator.integers
    pairs = {
        ":".join(name): np.stack([draw(NODES[name[0]], size=n), draw(NODES[name[2]], size=n)])
        for name, n in COUNTS.items()
    }
    return {**{name: one.T.tolist() for name, one in pairs.items()}, "": draw(NUM_NODES, size=(NUM_EDGES, 2)).tolist()}


def cut(pairs: dict[str, list[list[int]]]) -> None:
    """Write graphs that DGL has cut, with 3 parts of the one with types and 2 of the other."""
    typed = dgl.heterograph({name: tuple(zip(*pairs[":".join(name)], strict=True)) for name in COUNTS}, NODES)
    for name, count in NODES.items():
        typed.nodes[name].data["id"] = torch.arange(count)
    typed.nodes["user"].data["x"] = torch.arange(18.0).reshape(9, 2)
    typed.nodes["user"].data["train_mask"] = torch.arange(9) % 3 == 0
    for name, count in COUNTS.items():
        typed.edges[name].data["id"] = torch.arange(count)
    typed.edges["buys"].data["price"] = torch.arange(25.0)
    dgl.distributed.partition_graph(typed, "typed", 3, "typed", part_method="random")
    plain = dgl.graph(tuple(zip(*pairs[""], strict=True)), num_nodes=NUM_NODES)
    plain.ndata["id"], plain.edata["id"] = torch.arange(NUM_NODES), torch.arange(NUM_EDGES)
    plain.edata["weight"] = torch.arange(NUM_EDGES) / 4
    dgl.distributed.partition_graph(plain, "plain", 2, "plain", part_method="random", num_hops=2)


def preprocess(pairs: dict[str, list[list[int]]], folder: Path, names: list[str]) -> None:
    """Write what GraphBolt makes of files, without these."""
    folder.mkdir()
    edges, features, of_graph = [], [], []
    for name in names:
        of_type = {"type": name} if name else {}
        file = name.replace(":", "-") or "edges"
        np.save(folder / f"{file}.npy", np.array(pairs[name]).T)
        np.save(folder / f"{file}-id.npy", np.arange(len(pairs[name])))
        edges.append({**of_type, "format": "numpy", "path": f"{file}.npy"})
        feature = {"domain": "edge", **of_type, "name": "id", "format": "numpy", "path": f"{file}-id.npy"}
        features.append(feature)
        of_graph.append({**feature, "name": "weight"} if name else {})
    nodes = [{"type": name, "num": count} for name, count in NODES.items()] if len(names) > 1 else [{"num": NUM_NODES}]
    np.save(folder / "seeds.npy", np.arange(5)), np.save(folder / "labels.npy", np.arange(5) % 2)
    data = [{"name": name, "format": "numpy", "path": f"{name}.npy"} for name in ("seeds", "labels")]
    of_type = {"type": "user"} if len(names) > 1 else {}
    fields = {
        "dataset_name": "tiny",
        "graph": {"nodes": nodes, "edges": edges, "feature_data": [one for one in of_graph if one]},
        "feature_data": features,
        "tasks": [{"name": "classes", "num_classes": 2, "train_set": [{**of_type, "data": data}]}],
    }
    (folder / "metadata.yaml").write_text(yaml.dump(fields))
    dgl.graphbolt.OnDiskDataset(str(folder), include_original_edge_id=True)
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()
    (folder / "preprocessed" / "dataset_hash_value.txt").unlink()


if __name__ == "__main__":
    for name in ("typed", "plain", "graphbolt_typed", "graphbolt_plain"):
        shutil.rmtree(name, ignore_errors=True)
    dgl.seed(2)
    pairs = ends(np.random.default_rng(0))
    Path("edges.json").write_text(json.dumps(pairs) + "\n")
    cut(pairs)
    preprocess(pairs, Path("graphbolt_typed"), [name for name in pairs if name])
    preprocess(pairs, Path("graphbolt_plain"), [""])
