"""Data sets on disk hold what was saved, open without reading it, and give the batches of the objects themselves."""

from __future__ import annotations

import json
import pickle
import subprocess
from copy import copy

import numpy as np
import pytest
import torch
from small_datasets import BUYS, KINDS, saved

import headrace as hr

from copies import TORCH, run_program


def plan(graph, store, items, kind):
    seeds = hr.ItemSampler(items, batch_size=4, shuffle=True, seed=3)
    if kind == "plain":
        return seeds.sample_neighbor(graph, [3, 2], weight="weight").fetch_feature(store, node=["x", "half"])
    wanted = {"user": ["x"], "item": ["x"]}
    return seeds.sample_layer_neighbor(graph, [3, 2], time="time").fetch_feature(store, node=wanted)


@pytest.mark.parametrize("memory_map", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_yields_the_batches_of_the_objects(tmp_path, kind, memory_map):
    _, made = saved(tmp_path / "set", kind)
    data = hr.open_dataset(tmp_path / "set", memory_map=memory_map)
    assert data.graph == made["graph"]
    assert data.graph.content_digest() == made["graph"].content_digest()
    assert data.store == made["store"] or data.store.content_digest() == made["store"].content_digest()
    ours = plan(data.graph, data.store, data.items["train"], kind).loader()
    theirs = plan(made["graph"], made["store"], made["items"]["train"], kind).loader()
    ours.load_state_dict(theirs.state_dict())  # one plan, by its fingerprint
    batches = list(zip(ours, theirs, strict=True))
    assert batches
    for one, other in batches:
        assert torch.equal(one.n_id, other.n_id)
        assert one.y is None or torch.equal(one.y, other.y)
        assert all(torch.equal(one.node[name], other.node[name]) for name in other.node)
        assert one.seed_time is None or torch.equal(one.seed_time, other.seed_time)


@pytest.mark.parametrize("kind", KINDS)
def test_all_items_features_and_ids_are_there(tmp_path, kind):
    data, made = saved(tmp_path / "set", kind)
    assert list(data.items) == list(made["items"])
    for name, items in data.items.items():
        expected = hr.ItemSampler(made["items"][name], seed=0).items
        assert hr.ItemSampler(items, seed=0).items == expected
    for sources, of in ((data.store.node, made["store"].node), (data.store.edge, made["store"].edge)):
        assert list(sources) == list(of)
        for name in of:
            every = torch.arange(of[name].num_rows)
            assert torch.equal(sources[name].read(every).rows, of[name].read(every).rows)
            assert sources[name].dtype == of[name].dtype
    ((name, ids),) = made["ids"].items()
    every = torch.arange(len(ids))
    assert list(data.ids[name].external(every)) == list(ids)
    assert torch.equal(data.ids[name].ours(ids), every)
    data.verify()


def test_opening_reads_no_array(tmp_path):
    """Of files that hold other numbers than they should, the sizes are those of the manifest."""
    saved(tmp_path / "set")
    np.save(tmp_path / "set/graph.indptr.npy", np.full(41, 1 << 40))
    np.save(tmp_path / "set/graph.indices.npy", np.full(200, -1, np.int32))
    data = hr.open_dataset(tmp_path / "set")
    assert (data.graph.num_nodes, data.graph.num_edges) == (40, 200)
    assert "40" in repr(data.graph)
    assert "200 edges" in data.info()
    assert isinstance(data.store.node["x"].rows_in_place, torch.Tensor)
    with pytest.raises(hr.InputError, match="the graph is damaged"):
        data.graph.indices  # noqa: B018


def test_a_graph_is_saved_and_loaded_alone(tmp_path):
    graph = KINDS["typed"]()["graph"]
    graph.save(tmp_path / "graph")
    loaded = hr.Graph.load(tmp_path / "graph")
    assert loaded == graph
    assert isinstance(loaded, hr.Graph)
    assert loaded.by_time("time") == graph.by_time("time")
    with pytest.raises(hr.InputError, match="but it exists"):
        graph.save(tmp_path / "graph")
    graph.with_reverse().save(tmp_path / "graph", overwrite=True)
    assert hr.Graph.load(tmp_path / "graph", memory_map=False) == graph.with_reverse()


def test_a_reordered_graph_keeps_its_node_ids(tmp_path):
    graph = KINDS["plain"]()["graph"]
    reordered = hr.reorder(graph, hr.FeatureStore(), scores=torch.rand(40)).graph
    reordered.save(tmp_path / "graph")
    loaded = hr.Graph.load(tmp_path / "graph")
    assert torch.equal(loaded.node_ids, reordered.node_ids)
    assert pickle.loads(pickle.dumps(loaded)) == reordered  # noqa: S301 - our own bytes


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_another_data_set_are_taken(tmp_path, kind):
    """Also of types that have none of their own: these have none in the new data set either."""
    data, made = saved(tmp_path / "set", kind)
    notes = {"options": {"time_unit": "days"}}
    hr.save_dataset(tmp_path / "copy", data.graph, ids=dict(data.ids), notes=notes, progress=False)
    copy = hr.open_dataset(tmp_path / "copy")
    copy.verify()
    assert {one.type for one in copy.manifest.ids} == set(made["ids"])
    for name, ids in data.ids.items():
        every = range(len(ids))
        texts = ids.external(every)
        assert list(copy.ids[name].external(every)) == list(texts)
        assert copy.ids[name].ours(texts).tolist() == list(every)
    assert "unit of times: days" in copy.info()
    graph = hr.Graph.from_coo([0], [1], num_nodes=3)
    with pytest.raises(hr.InputError, match="expected an id for each of 3 nodes of 'node', got"):
        hr.save_dataset(tmp_path / "odd", graph, ids={"node": next(iter(data.ids.values()))})


def test_the_manifest_is_as_documented(tmp_path):
    saved(tmp_path / "set", "typed")
    fields = json.loads((tmp_path / "set/dataset.json").read_text())
    assert (fields["format"], fields["version"]) == ("headrace data set", 1)
    assert fields["edge_types"][0] == [list(BUYS), 50]
    array = fields["graph"]["indptr"]
    assert (array["file"], array["dtype"], array["shape"]) == ("graph.indptr.npy", "int64", [22])
    assert np.load(tmp_path / "set" / array["file"], allow_pickle=False).shape == (22,)
    printed = subprocess.run(
        ["sha256sum", tmp_path / "set" / array["file"]], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split()[0] == array["sha256"]
    (labelled,) = [one for one in fields["features"] if one["name"] == "price"]
    assert (labelled["of"], labelled["type"]) == ("edge", list(BUYS))


def test_a_folder_that_is_not_there_is_one_error(tmp_path):
    """Without that of the system before it, which has no more to tell."""
    with pytest.raises(hr.InputError, match="cannot be read") as error:
        hr.open_dataset(tmp_path / "nowhere")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_verify_names_a_file_with_other_bytes(tmp_path):
    data, _ = saved(tmp_path / "set")
    path = tmp_path / "set/node.x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(hr.InputError, match=r"expected in .*node.x.npy the bytes of its checksum"):
        data.verify()


def test_ids_of_the_graph_are_checked_before_it_is_sampled(tmp_path):
    saved(tmp_path / "set")
    path = tmp_path / "set/graph.indices.npy"
    np.save(path, np.full(200, 40, np.int32))
    graph = hr.open_dataset(tmp_path / "set").graph
    for use in (lambda: hr.ItemSampler(3).sample_neighbor(graph, [2]).loader(), graph.in_degrees, graph.content_digest):
        with pytest.raises(hr.InputError, match="the graph is damaged"):
            use()


def test_names_of_any_letters_make_files(tmp_path):
    names = ["a/b", "..", "A", "a", "x" * 300, "é\n", "con"]
    graph = hr.Graph.from_coo([0], [1])
    store = hr.FeatureStore(node={name: torch.full((2,), i) for i, name in enumerate(names)})
    hr.save_dataset(tmp_path / "set", graph, store, progress=False)
    data = hr.open_dataset(tmp_path / "set")
    assert [int(data.store.node[name].rows_in_place[0]) for name in names] == list(range(7))


def test_a_save_that_fails_leaves_nothing(tmp_path):
    made = KINDS["plain"]()

    class Failing(hr.FeatureSource):
        num_rows, row_bytes, dtype, shape = 40, 4, torch.float32, (40,)

        def read(self, ids, *, num_threads=1, to=None):
            raise OSError(28, "No space left on device")

        def content_digest(self):
            return "none"

    made["store"] = hr.FeatureStore(node={"x": Failing()})
    with pytest.raises(OSError, match="the disk is full"):
        hr.save_dataset(tmp_path / "set", **made, progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_opening_imports_no_more_than_it_needs(tmp_path):
    saved(tmp_path / "set")
    program = f"""
import sys, time, headrace as hr
data = hr.open_dataset({str(tmp_path / "set")!r})
start = time.perf_counter()
hr.open_dataset({str(tmp_path / "set")!r})
print(time.perf_counter() - start, [name for name in ("duckdb", "torch_geometric") if name in sys.modules])
"""
    out = run_program(program, imports=TORCH).stdout
    assert out.split(maxsplit=1)[1].strip() == "[]"
    assert float(out.split()[0]) < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": 3}, "expected graph to be an hr.Graph, got int"),
        ({"store": {"x": 1}}, "expected store to be an hr.FeatureStore, got dict"),
        ({"items": [1, 2]}, "expected items to be a dictionary"),
        ({"items": {1: [0]}}, "expected items by name"),
        ({"items": {"train": [40]}}, "expected items in \\[0, 40\\), got node 40"),
        ({"items": {"train": {"shop": [0]}}}, "shop"),
        ({"items": {"train": torch.ones(39, dtype=torch.bool)}}, "a mask of 40 nodes, got one of 39"),
        ({"items": {"train": hr.Items([0, 1], times=[1])}}, "a time for each of 2 items, got 1"),
        ({"ids": {"node": [1, 2]}}, "an id for each of 40 nodes of 'node', got 2"),
        ({"ids": {"node": ["a"] * 40}}, "each id of node once, got 39 repeats"),
        ({"ids": {"node": torch.rand(40)}}, "to be integers or texts"),
        ({"ids": {"shop": [1]}}, "there is no type 'shop'"),
        ({"store": hr.FeatureStore(node={"x": torch.rand(39)})}, "a row for each of the graph's 40 nodes, got 39"),
        ({"notes": {"a": {1, 2}}}, "expected notes to be JSON"),
        ({"overwrite": 1}, "overwrite to be True or False"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(tmp_path, arguments, message):
    with pytest.raises(hr.HeadraceError, match=message):
        hr.save_dataset(tmp_path / "set", **{**KINDS["plain"](), "progress": False, **arguments})
    assert not list(tmp_path.iterdir())


def test_unknown_ids_are_refused(tmp_path):
    data, _ = saved(tmp_path / "one")
    other, _ = saved(tmp_path / "two", "typed")
    texts, integers = data.ids["node"], other.ids["item"]
    for call, message in (
        (lambda: texts.ours(["n3é", "zz"]), "expected ids of nodes, got 'zz', which none has"),
        (lambda: texts.ours([3]), "expected texts, as the ids of this type are, got 3; pass texts: '3'"),
        (lambda: texts.ours(torch.tensor([3])), "got 3; pass texts: '3'"),
        (lambda: texts.external([40]), r"expected nodes in \[0, 40\), got 40; are they"),
        (lambda: texts.external([41, 40]), r"expected nodes in \[0, 40\), got 40 to 41; are they"),
        (lambda: texts.external(["n3é"]), r"expected numbers of nodes, got the text 'n3é'; .* ours\(ids\)"),
        (lambda: integers.ours([3, 4]), "expected ids of nodes, got 4, which none has; are they"),
        (lambda: integers.ours([4, 3, 5]), "expected ids of nodes, got 4 and 1 more that none has; are they"),
        (lambda: integers.ours(["3"]), "expected integers, as the ids of this type are, got the text '3'; pass int"),
        (lambda: integers.ours("3"), "got the text '3'; pass integers"),
        (lambda: integers.ours(np.array(["3"])), "got the text '3'; pass integers"),
        (lambda: integers.ours([0.5]), "expected integers, as the ids of this type are, got"),
    ):
        with pytest.raises(hr.InputError, match=message):
            call()


def test_names_that_are_not_there_are_answered_with_the_nearest(tmp_path):
    data = saved(tmp_path / "set", "typed")[0]
    for of, name, near in ((data.items, "trian", "train"), (data.ids, "usr", "user")):
        with pytest.raises(KeyError, match=f"expected one of .*, got '{name}'; did you mean '{near}'") as raised:
            of[name]
        assert isinstance(raised.value, hr.InputError)
        assert str(copy(raised.value)) == str(raised.value)
        assert isinstance(of, dict)
        assert of.get(name) is None
        copied = copy(of)
        assert list(copied) == list(of)
        with pytest.raises(KeyError, match="did you mean"):
            copied[name]
