"""Random tables, and the slow obvious conversion of them: Python lists, `Graph.from_coo` and `save_dataset`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from table_files import Description, EdgeTable, NodeTable, Options, Table

import headrace as hr

BUYS, KNOWS = ("user", "buys", "item"), ("user", "knows", "user")


@st.composite
def descriptions(draw):
    """Return users with keys, items with numbers, edges of two types with times and weights, and odd rows."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    num_users, num_items = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    keys = rng.choice(np.arange(-20, 100), num_users, replace=False)
    known = keys if draw(st.booleans()) else np.arange(num_users)
    odd = np.array([1000, 1001, -999])
    of_users = odd
    if find_spec("duckdb") and find_spec("pyarrow") and draw(st.booleans()):
        known, of_users = (
            np.array([f"ü{key}" * (key % 3) + str(key) for key in some], object) for some in (known, odd)
        )
    users = Table(
        "users",
        {
            "key": known,
            "x": rng.random((num_users, 3), np.float32),
            "y": rng.integers(0, 4, num_users),
            "part": rng.choice(np.array(["train", "test", ""], object), num_users),
            "when": rng.integers(0, 9, num_users),
        },
    )
    items = Table("items", {"a": rng.random(num_items), "b": rng.integers(0, 9, num_items)})
    tables = []
    undirected, loops = draw(st.booleans()), draw(st.sampled_from(["keep", "drop", "add"]))
    is_added = undirected or loops == "add"
    of_types = ((BUYS, (known, np.arange(num_items))), (KNOWS, (known, known)))
    for edge_type, ends in of_types:
        count = draw(st.integers(0, 40))
        columns = [
            rng.choice(
                np.concatenate([one, of_users if one is known else odd] if draw(st.booleans()) else [one]), count
            )
            for one in ends
        ]
        null = rng.random(count) < draw(st.sampled_from([0, 0.2]))
        time = np.ma.MaskedArray(rng.integers(0, 50, count), null)
        arrays = {"src": columns[0], "dst": columns[1], "time": np.ma.getdata(time), "f": rng.random((count, 2))}
        weighs = edge_type == BUYS or undirected
        arrays |= {"w": rng.random(count, np.float32)} if weighs else {}
        table = Table(f"edges of {edge_type[1]}", {**arrays, "time": time})
        more = {"weight": "w"} if weighs else {}
        tables.append(EdgeTable(table, edge_type, time="time", features={"f": "f"}, **more))
    nodes = [
        NodeTable("user", users, "key", features={"x": "x"}, labels={"y": "y"}, splits="part", time="when"),
        NodeTable("item", items, features={"ab": ("a", "b")}),
    ]
    options = Options(
        unknown_ids=draw(st.sampled_from(["refuse", "drop"])),
        loops=loops,
        undirected=undirected,
        duplicate_edges=draw(st.sampled_from(["keep", "drop"])),
        null_times=draw(st.sampled_from(["refuse", "earliest", "drop"])),
        reverse=not is_added and draw(st.booleans()),
    )
    return Description(tables, nodes, options=options)


class RefusedError(Exception):
    """The slow conversion has found a row that is to be refused."""


def slowly_converted(description: Description, folder: Path) -> None:
    """Convert in memory, row by row."""
    options = description.options
    users, items = (one.table.rows() for one in description.nodes)
    number = {"user": {key: i for i, key in enumerate(users["key"])}, "item": {i: i for i in range(len(items["a"]))}}
    edges, attrs, features = {}, {}, {}
    for one in description.edges:
        rows, ends, times, kept, seen = one.table.rows(), [], [], [], set()
        for row in range(one.table.num_rows):
            pair = tuple(number[end].get(rows[name][row]) for end, name in ((one.type[0], "src"), (one.type[2], "dst")))
            time = rows["time"][row]
            if None in pair:
                if options.unknown_ids == "refuse":
                    raise RefusedError
                continue
            if options.loops == "drop" and one.type == KNOWS and pair[0] == pair[1]:
                continue
            if time is None and options.null_times == "refuse":
                raise RefusedError
            if time is None and options.null_times == "drop":
                continue
            if options.duplicate_edges == "drop" and pair in seen:
                continue
            seen.add(pair)
            ends.append(pair)
            times.append(np.iinfo(np.int64).min if time is None else time)
            kept.append(row)
        there = set(ends)
        for place, (src, dst) in enumerate(list(ends) if options.undirected and one.type == KNOWS else []):
            if (dst, src) not in there:
                ends.append((dst, src))
                times.append(times[place])
                kept.append(kept[place])
        for node in range(len(users["key"])) if options.loops == "add" and one.type == KNOWS else ():
            if (node, node) not in there:
                ends.append((node, node))
                times.append(np.iinfo(np.int64).min)
                kept.append(None)
        edges[one.type] = tuple(
            torch.tensor(side, dtype=torch.int64) for side in (zip(*ends, strict=True) if ends else ((), ()))
        )
        attrs[one.type] = {"time": torch.tensor(times, dtype=torch.int64)}
        if one.weight is not None:
            weights = [1 if i is None else rows["w"][i] for i in kept]
            attrs[one.type]["weight"] = torch.tensor(weights, dtype=torch.float32)
        of_edges = [[1, 1] if i is None else rows["f"][i].tolist() for i in kept]
        features[one.type, "f"] = torch.tensor(of_edges, dtype=torch.float64).reshape(-1, 2)
    counts = {"user": len(users["key"]), "item": len(items["a"])}
    of_nodes = {"user": {"time": torch.tensor(users["when"])}}
    graph = hr.Graph.from_coo(edges, num_nodes=counts, edge_attrs=attrs, node_attrs=of_nodes)
    if options.reverse or options.undirected:
        reversed_types = list(edges) if options.reverse else [BUYS]
        graph = graph.with_reverse(reversed_types)
        features |= {
            ((d, f"rev_{r}", s), name): rows
            for ((s, r, d), name), rows in features.items()
            if (s, r, d) in reversed_types
        }
    store = hr.FeatureStore(
        node={
            ("user", "x"): torch.tensor(np.array(users["x"])),
            ("user", "y"): torch.tensor(users["y"]),
            ("item", "ab"): torch.tensor(
                list(zip(items["a"], map(float, items["b"]), strict=True)), dtype=torch.float64
            ),
        },
        edge=features,
    )
    parts = {}
    for i, name in enumerate(users["part"]):
        if name:
            parts.setdefault(name, []).append(i)
    when = {name: torch.tensor([users["when"][i] for i in ids]) for name, ids in parts.items()}
    splits = {name: hr.Items({"user": torch.tensor(ids)}, None, {"user": when[name]}) for name, ids in parts.items()}
    ids = {"user": users["key"] if isinstance(users["key"][0], str) else np.array(users["key"])}
    if users["key"] == list(range(len(users["key"]))):
        ids = {}
    hr.save_dataset(folder, graph, store, items=splits, ids=ids, progress=False)


def differences(folder: Path, other: Path) -> list[str]:
    """Return what differs between two data sets, beside their notes."""
    manifests = [json.loads((one / "dataset.json").read_text()) for one in (folder, other)]
    for manifest in manifests:  # a reverse type shares the file of the other direction
        for one in manifest["features"]:
            del one["rows"]["file"]
    found = [name for name in manifests[0] if name != "notes" and manifests[0][name] != manifests[1][name]]
    names = {path.name for one in (folder, other) for path in one.iterdir()} - {"dataset.json"}
    names = sorted(name for name in names if "rev_" not in name)
    for name in names:
        contents = [(one / name).read_bytes() if (one / name).exists() else None for one in (folder, other)]
        if contents[0] != contents[1]:
            found.append(name)
    return found
