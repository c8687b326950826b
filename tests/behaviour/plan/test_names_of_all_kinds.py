"""Names with surrogates or outside ASCII, names that are not there, and deep nesting: they work or are refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import headrace as hr

ODD = "a\udc80é"
KIND, RELATION = "größe", ("größe", "kännt", "größe")
RING = torch.arange(10), torch.arange(10).roll(1)


def plain(**attrs) -> hr.Graph:
    return hr.Graph.from_coo(*RING, num_nodes=10, **attrs)


def run(plan: hr.Plan) -> None:
    loader = plan.loader()
    batches = list(loader)
    texts = [loader.explain(), str(loader.stats()), loader.stats().prometheus(), repr(batches[0]), repr(plan)]
    assert all(text.encode() for text in texts)
    loader.load_state_dict(json.loads(json.dumps(loader.state_dict())))


def test_surrogates_in_names_of_types_attributes_and_features():
    relation = (ODD, ODD, ODD)
    typed = hr.Graph.from_coo({relation: RING}, num_nodes={ODD: 10}, edge_attrs={relation: {ODD: torch.rand(10)}})
    store = hr.FeatureStore(node={ODD: {ODD: torch.rand(10, 2)}})
    items = hr.ItemSampler({ODD: torch.arange(4)}, batch_size=2)
    run(items.sample_neighbor(typed, [2], weight=ODD).fetch_feature(store, node={ODD: [ODD]}))
    timed = plain(node_attrs={ODD: torch.arange(10)})
    run(hr.ItemSampler(4, time=torch.arange(4)).sample_neighbor(timed, [2], time=ODD))
    others = {plain(edge_attrs={name: torch.ones(10)}).content_digest() for name in ("a", ODD, ODD + "b", "é")}
    assert len(others) == 4
    plan = hr.ItemSampler(4).sample_neighbor(plain(edge_attrs={ODD: torch.rand(10)}), [2], weight=ODD)
    config = json.loads(json.dumps(plan.config()))
    assert hr.Plan.from_config(config, graphs=plan.stages[1].graph).config() == config


def test_surrogates_in_files(tmp_path):
    """Paths may have them; names within files may not, as a reader of JSON may refuse them."""
    folder = tmp_path / ODD
    hr.save_dataset(folder, plain(), progress=False)
    assert hr.open_dataset(folder).graph.num_nodes == plain().num_nodes
    np.save(tmp_path / f"{ODD}.npy", np.ones((3, 2)))
    assert hr.DiskFeature(tmp_path / f"{ODD}.npy").read(torch.tensor([1])).rows.tolist() == [[1.0, 1.0]]
    store = hr.FeatureStore(node={ODD: torch.arange(20.0).view(10, 2)})
    for arguments in (
        {"graph": plain(edge_attrs={ODD: torch.arange(10)})},
        {"store": store},
        {"items": {ODD: [1, 2]}},
        {"notes": {ODD: 1}},
        {"notes": {"a": ODD}},
        {"ids": {"node": [ODD + str(one) for one in range(10)]}},
    ):
        with pytest.raises(hr.InputError, match=r"to be Unicode, got .*a.udc80.*; replace its surrogates"):
            hr.save_dataset(tmp_path / "data", **{"graph": plain(), **arguments}, progress=False)


@pytest.mark.parametrize(
    "call",
    [
        hr.open_dataset,
        lambda path: hr.DiskFeature(path / "x.npy"),
        lambda path: hr.Plan.from_config(
            {"version": 1, "stages": [{"source": "item_sampler", "items": {"$object": ODD}}]}
        ),
        lambda path: plain().edge_attrs[ODD],
    ],
)
def test_errors_about_surrogates_print(call, tmp_path):
    with pytest.raises((hr.HeadraceError, OSError)) as caught:
        call(tmp_path / ODD)
    assert str(caught.value).encode()


NAMED = {
    "Graph.edge_attrs": lambda: plain(edge_attrs={"time": torch.arange(10)}).edge_attrs,
    "edge_attrs_csc": lambda: plain(edge_attrs={"time": torch.arange(10)}).edge_attrs_csc,
    "Graph.node_attrs": lambda: plain(node_attrs={"time": torch.arange(10)}).node_attrs,
    "LinkSplit.items": lambda: hr.split_links(plain(), val=2, test=2).items,
    "LinkSplit.graphs": lambda: hr.split_links(plain(), val=2, test=2).graphs,
    "LinkSplit.edges": lambda: hr.split_links(plain(), val=2, test=2).edges,
    "split_nodes": lambda: hr.split_nodes(10),
    "by_part": lambda: hr.Partition.hash(10, 2).report(plain()).by_part,
    "stages": lambda: used().stats().stages,
    "lowered": lambda: used().stats().lowered,
    "rates": lambda: used().stats().rates,
    "edge_index_dict": lambda: (
        next(iter(hr.ItemSampler({KIND: [1]}).sample_neighbor(typed(), [1]).loader())).blocks[0].edge_index_dict
    ),
}


def typed() -> hr.Graph:
    return hr.Graph.from_coo({RELATION: RING}, num_nodes={KIND: 10})


def used() -> hr.Loader:
    loader = hr.ItemSampler(4).sample_neighbor(plain(), [2]).loader()
    list(loader)
    return loader


@pytest.mark.parametrize("name", NAMED)
def test_dictionaries_name_their_keys(name):
    mapping = NAMED[name]()
    keys = list(mapping)
    with pytest.raises(hr.InputError, match=r"expected one of .*, got 'when'") as caught:
        mapping["when"]
    assert isinstance(caught.value, KeyError)
    assert all(repr(key) in str(caught.value) for key in keys)
    assert mapping.get("when") is None
    assert "when" not in mapping
    assert mapping[keys[0]] is not None
    if isinstance(mapping, dict):
        assert list(pickle.loads(pickle.dumps(mapping))) == keys  # noqa: S301 - written here


def test_a_graph_without_attributes_tells_how_to_give_some():
    with pytest.raises(hr.InputError, match=r"got 'when' where there is none yet; give the graph edge_attrs="):
        plain().edge_attrs["when"]


@pytest.mark.parametrize("depth", [100, 500, 50_000])
@pytest.mark.parametrize("kind", ["dictionaries", "lists", "tuples"])
def test_deep_nesting_is_refused_by_name(depth, kind, tmp_path):
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if kind == "dictionaries" else [value] if kind == "lists" else (value,)
    config = {"version": 1, "stages": [{"source": "item_sampler", "items": value}]}
    with pytest.raises(hr.PlanError, match="from_config: expected at most 64 levels of dictionaries and lists"):
        hr.Plan.from_config(config)
    with pytest.raises(hr.InputError, match="got more than 64 levels"):
        hr.save_dataset(tmp_path / "data", plain(), notes={"a": value}, progress=False)
    loader = hr.ItemSampler(4).loader()
    with pytest.raises(hr.StateError, match="expected at most 64 levels"):
        loader.load_state_dict({**loader.state_dict(), "source": value})
    with pytest.raises(hr.HeadraceError, match="fetch_feature: expected"):
        hr.ItemSampler(4).fetch_feature(hr.FeatureStore(), node=value)


ASCII = {
    "encoding": {"PYTHONIOENCODING": "ascii"},
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}

PRINTS = """
import sys, headrace as hr
from headrace.pipeline.cli.command_line import main
ended = {}
for words in ["info"], ["head"], ["explain"], ["verify"], [sys.argv[2]]:
    try:
        ended[words[0]] = main([*words, *([] if words == sys.argv[2:] else sys.argv[1:2])])
    except SystemExit as stop:
        ended[words[0]] = stop.code
assert ended == {"info": 0, "head": 0, "explain": 0, "verify": 0, sys.argv[2]: 2}, ascii(ended)
data = hr.open_dataset(sys.argv[1])
loader = hr.ItemSampler(data.items["tr\\xe4in"]).sample_neighbor(data.graph, [2])
loader = loader.fetch_feature(data.store, node={"gr\\xf6\\xdfe": ["h\\xf6he"]}).loader()
list(loader)
print(loader.explain())
print(loader.stats())
for look_up in (lambda: data.items["\\xe9"], lambda: data.store.node["\\xe9"], lambda: hr.open_dataset("\\xe9")):
    try:
        look_up()
    except (hr.HeadraceError, OSError) as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ASCII)
def test_names_outside_ascii_on_an_ascii_terminal(terminal, tmp_path):
    folder = tmp_path / "dätä"
    store = hr.FeatureStore(node={KIND: {"höhe": torch.rand(10, 2)}})
    hr.save_dataset(folder, typed(), store, items={"träin": {KIND: [1, 2]}}, notes={"é": "ü"}, progress=False)
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **ASCII[terminal]}
    # In one process, which begins in that terminal, for all commands.
    command = [sys.executable, "-c", PRINTS, folder, "frobnicaté"]
    ran = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert b"UnicodeEncodeError" not in ran.stderr, ran.stderr.decode()
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"frobnicat" in ran.stderr
    assert (ran.stdout + ran.stderr).isascii()
