from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import cache

import pytest
import torch
from ranks import cooperative_batches
from small_blocks import batch

import headrace as hr


def test_only_seeds_are_required():
    bare = hr.MiniBatch(seeds=torch.tensor([1, 2]))
    assert bare.num_seeds == 2
    assert bare.n_id.tolist() == []
    assert bare.e_id.tolist() == []
    assert bare.blocks == ()
    assert bare.y is None


def test_x_names_what_was_fetched_instead():
    assert torch.equal(batch().x, batch().node["x"])
    with pytest.raises(hr.InputError, match=r"feature 'x', got \['h'\]"):
        _ = batch(node={"h": torch.zeros(4)}).x
    with pytest.raises(hr.InputError, match="feature 'x', got none"):
        _ = batch(node={}).x


def test_features_that_were_not_fetched_are_named_beside_those_that_were():
    fetched = batch(node={"h": torch.zeros(4)}, edge={})
    with pytest.raises(hr.InputError, match=r"MiniBatch\.node: .* node features, \['h'\], got 'y'"):
        fetched.node["y"]
    with pytest.raises(hr.InputError, match=r"MiniBatch\.edge: .* edge features, none, got 'w'; .*edge=\["):
        fetched.edge["w"]
    assert fetched.node.get("y") is None
    assert "y" not in fetched.node
    again = copy.deepcopy(fetched).replace(node={"z": torch.zeros(4)})
    with pytest.raises(hr.InputError, match=r"\['z'\], got 'h'"):
        again.node["h"]


def test_x_of_types_says_how_rows_are_read():
    batch = hr.MiniBatch(torch.arange(2), node={("user", "x"): torch.zeros(2, 1)})
    with pytest.raises(hr.InputError, match=r"rows are by type, read batch\.node\['user', 'x'\]"):
        batch.x  # noqa: B018


def test_e_id_begins_next_to_the_seeds():
    assert batch().e_id.tolist() == [5, 6, 5, 7]
    inner = dataclasses.replace(batch().blocks[1], edge_ids=None)
    with pytest.raises(hr.InputError, match="without them"):
        _ = batch(blocks=[batch().blocks[0], inner]).e_id


def test_frozen_with_read_only_mappings():
    with pytest.raises(AttributeError):
        batch().y = None
    with pytest.raises(TypeError):
        batch().node["x"] = torch.zeros(1)
    assert batch().replace(epoch=3).epoch == 3
    assert isinstance(batch().blocks, tuple)
    assert isinstance(batch().edge["w"], tuple)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x"], r'got x; write replace\(node=\{\*\*batch\.node, "x": x\}\)$'),
        (["w", "x"], r'got w, x; write replace\(edge=\{\*\*batch\.edge, "w": w\}, node=\{\*\*batch\.node, "x": x\}\)$'),
        (["deg"], r"got deg; there are seeds, .*num_positives, and node and edge have features by name$"),
        (["deg", "x"], r"got deg, x; there are seeds"),
    ],
)
def test_changes_of_no_field(names, words):
    with pytest.raises(hr.InputError, match=f"^MiniBatch.replace: expected names of fields, {words}"):
        batch().replace(**dict.fromkeys(names, torch.zeros(4)))


def test_to_moves_every_tensor():
    moved = batch().to("meta")
    tensors = list(moved.tensors())
    assert len(tensors) == len(list(batch().tensors())) == 14
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.num_sampled_nodes == (1, 2, 1)
    assert (moved.epoch, moved.index, moved.num_global_seeds) == (1, 4, 1)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    """Whatever torch would raise: that differs between its builds."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    made = batch()
    for value in (made, made.blocks[0]):
        with pytest.raises(hr.HeadraceError, match="got cuda:1; torch finds no GPU"):
            value.to("cuda:1")


@cache
def exchange_of_ranks():
    """One of a batch that ranks made together."""
    graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0])
    plan = hr.ItemSampler(4, seed=0).sample_neighbor(graph, [1])
    (share,), _ = cooperative_batches(plan, 2, partition=hr.Partition.hash(4, 2))
    return share.exchanges[0]


def exchange(**changes):
    values = {
        "owned": torch.tensor([3, 4]),
        "wanted": torch.tensor([4, 3]),
        "num_own": 1,
        "send_rows": torch.tensor([1]),
        "send_counts": (0, 1),
        "receive_counts": (0, 1),
        "places": None,
    }
    return dataclasses.replace(exchange_of_ranks(), **{**values, **changes})


@cache
def links_of_batch():
    """The edge types of pairs, as a batch has them."""
    graph = hr.Graph.from_coo({("n", "a", "n"): ([0], [1])}, num_nodes={"n": 2})
    items = hr.ItemSampler({("n", "a", "n"): torch.tensor([[0, 1]])}, seed=0)
    return next(iter(items.sample_neighbor(graph, [1]).loader())).link_types


def variations():
    yield "nothing", batch()
    for name in ("seeds", "seed_index", "item_index", "y", "n_id"):
        yield name, batch(**{name: getattr(batch(), name) + 1})
    yield "slot", batch(slot=torch.tensor([0]))
    yield "seed_time", batch(seed_time=torch.tensor([0]))
    yield "y missing", batch(y=None)
    yield "y by type", batch(y={"a": batch().y})
    yield "y of another type", batch(y={"b": batch().y})
    for names, number in ((("a", "b"), 0), (("a", "b"), 1), (("a", "c"), 0)):
        yield (
            "link_types",
            batch(link_types=dataclasses.replace(links_of_batch(), names=names, numbers=torch.tensor([number]))),
        )
    yield "y dtype", batch(y=torch.tensor([2], dtype=torch.int32))
    yield "node value", batch(node={"x": batch().x + 1})
    yield "node shape", batch(node={"x": batch().x.reshape(2, 4)})
    yield "node name", batch(node={"z": batch().x})
    yield "edge", batch(edge={"w": [torch.tensor([0.5, 0.7]), torch.tensor([0.5, 0.8])]})
    yield "hops", batch(num_sampled_nodes=[1, 1, 2])
    yield "hop edges", batch(num_sampled_edges=[1, 3])
    yield "num_positives", batch(num_positives=0)
    yield "num_positives", batch(num_positives=1)
    for name in ("epoch", "index", "num_global_seeds"):
        yield name, batch(**{name: 9})
    outer, inner = batch().blocks
    for name in ("indptr", "indices", "edge_ids"):
        yield f"block {name}", batch(blocks=[dataclasses.replace(outer, **{name: getattr(outer, name) + 1}), inner])
    yield "block weight", batch(blocks=[dataclasses.replace(outer, weight=torch.ones(2)), inner])
    yield "exchange", batch(exchanges=[exchange()])
    yield "exchange num_own", batch(exchanges=[exchange(num_own=2)])
    yield "exchange places", batch(exchanges=[exchange(places=torch.tensor([0, 1]))])
    for name in ("owned", "wanted", "send_rows"):
        yield f"exchange {name}", batch(exchanges=[exchange(**{name: getattr(exchange(), name) + 1})])
    for name in ("send_counts", "receive_counts"):
        yield f"exchange {name}", batch(exchanges=[exchange(**{name: (1, 0)})])
    yield "block num_src", batch(blocks=[dataclasses.replace(outer, num_src=9), inner])


def test_layers_that_share_a_block_do_so_on_another_device():
    one, other = batch().blocks[0], batch().blocks[0]
    moved = batch().replace(blocks=(one, other, one)).to("meta")
    assert moved.blocks[0] is moved.blocks[2]
    assert moved.blocks[0] is not moved.blocks[1]


def test_digest_sees_every_field():
    digests: dict[str, str] = {}
    for name, changed in variations():
        assert changed.digest() not in digests, f"{name} equals {digests.get(changed.digest())}"
        digests[changed.digest()] = name
    # A field that this test does not know yet fails here: vary it above. A channel is no data, types are those of the
    # graph, and which seeds of all ranks these are decides what `slot` and blocks say.
    assert {field.name for field in dataclasses.fields(hr.MiniBatch)} == {
        *("seeds", "seed_index", "item_index", "y", "n_id", "node", "edge", "blocks", "comm", "types"),
        *("slot", "seed_time", "seed_slot", "link_types"),
        *("num_sampled_nodes", "num_sampled_edges", "exchanges", "epoch", "index", "num_global_seeds"),
        "num_positives",
    }
    assert batch().digest() == batch().digest()


def test_digest_sees_the_sign_of_zero_and_is_nan_safe():
    zero, minus_zero = (batch(node={"x": torch.tensor([value] * 4)}).digest() for value in (0.0, -0.0))
    assert zero != minus_zero
    nan = batch(node={"x": torch.full((4,), float("nan"))})
    assert nan.digest() == nan.replace().digest()


def test_repr_shows_shapes_not_values():
    assert repr(batch()) == (
        "MiniBatch(epoch=1, index=4, seeds=int64[1],\n"
        "  y=int64[1],\n"
        "  n_id=int64[4],\n"
        "  node['x']=float32[4, 2],\n"
        "  edge['w']=float32[2], float32[2],\n"
        "  blocks[0]=Block(4 -> 3 nodes, 2 edges),\n"
        "  blocks[1]=Block(3 -> 1 nodes, 2 edges))"
    )


def test_pin_memory():
    if not torch.cuda.is_available():
        with pytest.raises(hr.HeadraceError, match=r"accelerator|CUDA|NVIDIA"):
            batch().pin_memory()
        return
    assert all(tensor.is_pinned() for tensor in batch().pin_memory().tensors())


def test_pickle_and_copy():
    assert batch().blocks[0].edge_index.shape == (2, 2)
    for again in (pickle.loads(pickle.dumps(batch())), copy.deepcopy(batch())):  # noqa: S301 - our own bytes
        assert again.digest() == batch().digest()
        assert repr(again) == repr(batch())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("edge_index", r"batch\.blocks\[layer\]\.edge_index has those of a layer"),
        ("batch_size", r"batch\.num_seeds is"),
        ("input_nodes", r"batch\.n_id has"),
        ("sampled_subgraphs", r"batch\.blocks has"),
        ("node_features", r'are in batch\.node\["name"\]'),
        ("deg", r"batch\.node\['deg'\] has it"),
        ("seed", r"did you mean seeds\?"),
        ("node_id", r"batch\.n_id has"),
        ("y_dict", r'batch\.y\["paper"\] has'),
        ("zzz", r"dir\(\) lists"),
    ],
)
def test_attributes_that_it_does_not_have(name, message):
    one = batch().replace(node={"deg": torch.zeros(3)})
    assert not hasattr(one, name)
    with pytest.raises(AttributeError, match=f"a MiniBatch has no attribute '{name}'; .*{message}"):
        getattr(one, name)
