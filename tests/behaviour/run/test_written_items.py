"""Items by type, reordered rows and tensors of a store: what is written later is seen, or refused."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

NUM_NODES = 40
ENDS = torch.arange(NUM_NODES), (torch.arange(NUM_NODES) + 1) % NUM_NODES


def typed() -> hr.Graph:
    times = {("a", "to", "b"): {"t": torch.arange(NUM_NODES)}}
    return hr.Graph.from_coo({("a", "to", "b"): ENDS}, num_nodes={"a": NUM_NODES, "b": NUM_NODES}, edge_attrs=times)


def flat() -> hr.Graph:
    return hr.Graph.from_coo(*ENDS, num_nodes=NUM_NODES, edge_attrs={"t": torch.arange(NUM_NODES)})


def ids() -> torch.Tensor:
    return torch.arange(NUM_NODES)


def seeds(items: object, **options: object) -> hr.Plan:
    time = {"time": "t"} if "time" in options else {}
    by_type = isinstance(items[0] if isinstance(items, tuple) else items, dict)
    graph = typed() if by_type else flat()
    return hr.ItemSampler(items, batch_size=10, seed=0, **options).sample_neighbor(graph, [-1], **time)


PAIRS = torch.stack(ENDS, 1)

#: What is written, and the plan made of it; arrays that are copied, as types follow each other or the dtype is another.
COPIED = {
    "items of type 'a'": (ids, lambda array: seeds({"a": array, "b": ids()})),
    "labels of type 'a'": (ids, lambda array: seeds({"a": (ids(), array)})),
    "labels of type 'b'": (ids, lambda array: seeds(({"a": ids(), "b": ids()}, {"a": ids(), "b": array}))),
    "labels of type": (ids, lambda array: seeds({("a", "to", "b"): (PAIRS, array)})),
    "items of type": (PAIRS.clone, lambda array: seeds({("a", "to", "b"): array})),
    "time of type 'a'": (ids, lambda array: seeds({"a": ids()}, time={"a": array})),
    "time": (ids().int, lambda array: seeds(ids(), time=array)),
}
WRITES = {
    "torch": lambda array: array.fill_(3),
    "data": lambda array: array.data.fill_(3),
    "numpy": lambda array: array.numpy().fill(3),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("what", COPIED)
def test_writes_to_arrays_that_items_copy_are_refused(what, write):
    make, plan = COPIED[what]
    array = make().clone()
    with plan(array).loader() as loader:
        assert len(list(loader)) in (4, 8)
        WRITES[write](array)
        with pytest.raises(hr.InputError, match=rf"ItemSampler: expected {what}.* to stay as it was when the plan was"):
            list(loader)


@pytest.mark.parametrize("what", COPIED)
def test_torch_s_writes_are_refused_with_the_next_batch(what):
    make, plan = COPIED[what]
    array = make().clone()
    with plan(array).loader() as loader:
        batches = iter(loader)
        next(batches)
        array.fill_(3)
        with pytest.raises(hr.InputError, match=f"expected {what}"):
            next(batches)


def fetching(graph: hr.Graph, features: hr.FeatureStore) -> hr.Plan:
    return (
        hr.ItemSampler(NUM_NODES, batch_size=10, seed=0)
        .sample_neighbor(graph, [-1])
        .fetch_feature(features, node=["x"])
    )


REPLACED = {
    "set_": lambda rows: rows.set_(torch.ones_like(rows)),
    "data": lambda rows: setattr(rows, "data", torch.ones_like(rows)),
}


@pytest.mark.parametrize("replace", REPLACED)
@pytest.mark.parametrize("at", [1, 4])
def test_other_memory_under_a_store_is_refused(replace, at):
    rows = torch.arange(NUM_NODES).float()[:, None].clone()
    with fetching(flat(), hr.FeatureStore(node={"x": rows})).loader() as loader:
        batches = iter(loader)
        for _ in range(at):
            batch = next(batches)
            assert torch.equal(batch.x, rows[batch.n_id])
        REPLACED[replace](rows)
        with pytest.raises(hr.InputError, match="expected node feature 'x' to stay where it was"):
            list(loader)


def test_memory_that_moves_to_be_shared_is_none_other():
    rows = torch.arange(NUM_NODES).float()[:, None].clone()
    with fetching(flat(), hr.FeatureStore(node={"x": rows})).loader() as loader:
        list(loader)
        rows.share_memory_()
        rows.mul_(2)
        for batch in loader:
            assert torch.equal(batch.x, rows[batch.n_id])


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("original_ids", [True, False])
def test_rows_written_since_they_were_copied_in_another_order_are_refused(original_ids, write):
    rows = torch.arange(NUM_NODES).float()[:, None].clone()
    features = hr.FeatureStore(node={"x": rows})
    made = hr.reorder(flat(), features, order=ids().flip(0), original_ids=original_ids)
    with fetching(made.graph, made.store).loader() as loader:
        list(loader)
        WRITES[write](rows)
        with pytest.raises(hr.InputError, match=r"reorder: expected node feature 'x' to stay .* call reordered\.store"):
            list(loader)


@pytest.mark.parametrize("original_ids", [True, False])
def test_rows_of_a_reordered_store_may_be_written(original_ids):
    rows = torch.arange(NUM_NODES).float()[:, None]
    made = hr.reorder(flat(), hr.FeatureStore(node={"x": rows}), order=ids().flip(0), original_ids=original_ids)
    known = made.store.node["x"].read(ids()).rows.clone()
    with fetching(made.graph, made.store).loader() as loader:
        for batch in loader:
            assert torch.equal(batch.x, known[batch.n_id])
            known[batch.seeds] += 1
            made.store.node["x"].update(batch.seeds, known[batch.seeds])


@pytest.mark.parametrize("what", ["items", "labels"])
def test_memory_that_is_gone_has_an_error_of_its_own(what):
    items, labels = ids(), ids()
    with hr.ItemSampler((items, labels), batch_size=10, seed=0).loader() as loader:
        list(loader)
        (items if what == "items" else labels).untyped_storage().resize_(0)
        with pytest.raises(hr.InputError, match=f"expected {what} to have their memory of 320 bytes, got a storage"):
            list(loader)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_a_partition_has_a_table_of_its_own(dtype):
    owners = (ids() % 2).to(dtype)
    partition = hr.Partition.of(owners)
    owners.fill_(1)
    assert partition.owner(ids()).tolist() == (ids() % 2).tolist()
