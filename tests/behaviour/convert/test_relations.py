"""One table of edges with their relation in a column, as of Neo4j, Neptune and knowledge graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from table_files import write_toml

import headrace as hr

ROWS = "start,end,TYPE,since,part\na,b,LIKES,1,train\nb,c,OWNS,2,val\na,c,LIKES,3,val\nc,a,OWNS,4,train\nb,b,KNOWS,5,\n"
EDGES = {"files": "e.csv", "src": "start", "dst": "end", "relation": "TYPE"}


def converted(folder, sections, text=ROWS):
    (folder / "e.csv").write_text(text)
    data = hr.convert(write_toml(folder / "d.toml", sections), folder / "out", progress=False, overwrite=True)
    data.verify()
    return data


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"edges": {**EDGES, "relation": "KIND"}}, "has no column 'KIND'"),
        ({"edges": {**EDGES, "relation": 3}}, "expected the name of a column, got 3"),
        (
            {'edges."user,likes,item"': EDGES},
            r"expected the edge type \"user,\*,item\" with relation = .*, got 'user,likes",
        ),
        (
            {'edges."user,*,item"': {name: EDGES[name] for name in ("files", "src", "dst")}},
            r"expected relation = COLUMN with the edge type \"user,\*,item\", got none",
        ),
        (
            {"edges": EDGES, "nodes.user": {}, "nodes.item": {}},
            r"expected the types of ends, as \[edges.\"SOURCE,\*,DESTINATION\"\], got the node types user, item",
        ),
        ({'edges."user,*,itme"': EDGES, "nodes.user": {}, "nodes.item": {}}, "got 'itme'; did you mean item"),
        ({"edges": {**EDGES, "relation": "since"}}, "expected texts in 'since', got int64"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, sections, message):
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, sections)


@pytest.mark.parametrize("sections", [{}, {"nodes": {"external": True}}, {"nodes.thing": {}}])
def test_each_relation_is_an_edge_type(tmp_path, sections):
    data = converted(tmp_path, {"edges": {**EDGES, "time": "since", "split": "part"}, **sections})
    of_type = "thing" if "nodes.thing" in sections else "node"
    types = tuple((of_type, relation, of_type) for relation in ("KNOWS", "LIKES", "OWNS"))
    assert data.graph.edge_types.names == types
    assert data.ids[of_type].external(torch.arange(3)) == ["a", "b", "c"]
    numbers = {name: data.items[name].ids for name in data.items}
    assert {kind: ids.tolist() for kind, ids in numbers["train"].items()} == {types[1]: [[0, 1]], types[2]: [[2, 0]]}
    assert {kind: ids.tolist() for kind, ids in numbers["val"].items()} == {types[1]: [[0, 2]], types[2]: [[1, 2]]}
    assert data.graph.edge_attrs["time"].tolist() == [5, 1, 3, 2, 4]


def test_ends_of_two_types_and_other_tables_of_the_same_types(tmp_path):
    (tmp_path / "more.csv").write_text("src,dst\nz,c\n")
    sections = {'edges."user,*,item"': EDGES, 'edges."user,LIKES,item"': {"files": "more.csv"}}
    data = converted(tmp_path, sections)
    assert data.graph.num_edges == 6
    assert data.ids["user"].external(torch.arange(4)) == ["a", "b", "c", "z"]


def test_a_relation_that_is_null_is_refused_with_its_row(tmp_path):
    with pytest.raises(hr.InputError, match=r"e\.csv, row 3: expected a relation in 'TYPE', got null"):
        converted(tmp_path, {"edges": EDGES}, "start,end,TYPE,since,part\na,b,X,1,\nb,c,,2,\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"undirected": True},
        {"reverse": True},
        {"duplicate_edges": "drop", "loops": "add"},
        {"held_out": "drop", "loops": "drop"},
        {"null_times": "drop", "unknown_ids": "drop"},
    ],
)
def test_relations_in_a_column_are_as_a_file_for_each(tmp_path, options):
    random = np.random.default_rng(7)
    num_rows = 300
    table = {
        "start": [f"n{one}" for one in random.integers(0, 20, num_rows)],
        "end": [f"n{one}" for one in random.integers(0, 20, num_rows)],
        "TYPE": [f"T{one}" for one in random.integers(0, 5, num_rows)],
        "since": [
            str(one) if one % 9 or "null_times" not in options else "" for one in random.integers(0, 99, num_rows)
        ],
        "part": random.choice(["train", "val", "test", ""], num_rows).tolist(),
        "kind": random.choice(["red", "green", "blue"], num_rows).tolist(),
        "x": [f"{one:.3f}" for one in random.normal(size=num_rows)],
    }
    nodes = {"nodes.node": {"files": "nodes.csv", "id": "id"}}
    known = range(2 if "unknown_ids" in options else 0, 20)
    (tmp_path / "nodes.csv").write_text("id\n" + "".join(f"n{one}\n" for one in reversed(known)))
    text = "\n".join(map(",".join, [list(table), *zip(*table.values(), strict=True)])) + "\n"
    fields = {**EDGES, "time": "since", "split": "part", "labels": "kind", "features": ["x"]}
    together = converted(tmp_path, {"edges": fields, **nodes, "options": options}, text)
    edges = {}
    for relation in sorted(set(table["TYPE"])):
        rows = [row for row in zip(*table.values(), strict=True) if row[2] == relation]
        (tmp_path / f"{relation}.csv").write_text("\n".join(map(",".join, [list(table), *rows])) + "\n")
        own = {name: column for name, column in fields.items() if name != "relation"}
        edges[f'edges."node,{relation},node"'] = {**own, "files": f"{relation}.csv"}
    source = write_toml(tmp_path / "apart.toml", {**edges, **nodes, "options": options})
    hr.convert(source, tmp_path / "apart", progress=False)
    files = sorted(path.relative_to(tmp_path / "apart") for path in (tmp_path / "apart").rglob("*.npy"))
    assert files == sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.npy"))
    odd = [one for one in files if (tmp_path / "apart" / one).read_bytes() != (tmp_path / "out" / one).read_bytes()]
    assert odd == []
    assert together.notes["counts"] == hr.open_dataset(tmp_path / "apart").notes["counts"]
