"""fetch_feature(dtype=): rows stored in fewer bytes are the oracle's numbers, wherever they are."""

from __future__ import annotations

import copy
import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from part_files import write
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, RowsOnDisk, graph

SIZE = 40
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CODES = (torch.int8, torch.uint8)


@cache
def small() -> hr.Graph:
    src, dst = torch.randint(0, SIZE, (2, 300), generator=torch.Generator().manual_seed(0))
    return hr.Graph.from_coo(src, dst, num_nodes=SIZE)


def oracle(source: hr.FeatureSource, ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The rows of ids, decoded in float32, one operation after the other, and rounded."""
    rows, how = source.read(ids).rows.float(), source.quantization
    if how is not None:
        rows = (rows - how.zero_point.float()) * how.scale.float()
    return rows.to(dtype)


@cache
def tier_sizes(**numbers: int) -> object:
    store = hr.FeatureStore(node={"x": torch.zeros(SIZE)})
    return dataclasses.replace(hr.plan_tiers(store, small(), hr.Machine(), torch.ones(SIZE)).sizes, **numbers)


def stored(kind: torch.dtype, seed: int, width: int = 3) -> hr.FeatureSource | torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SIZE, width, generator=generator) * 10
    if kind in FLOATING:
        return x.to(kind)
    return hr.QuantizedFeature.of(x, kind)


@given(
    st.sampled_from([*FLOATING, *CODES]),
    st.sampled_from(FLOATING),
    st.sampled_from(["memory", "disk", "cache", "tiers", "reordered"]),
    st.integers(0, 2**32 - 1),
)
def test_rows_are_the_numbers_of_the_oracle(kind, dtype, place, seed):
    feature = stored(kind, seed)
    source = hr.FeatureStore(node={"x": feature}).node["x"]
    store, sampled = hr.FeatureStore(node={"x": source, "y": torch.arange(SIZE)}), small()
    if place == "disk":
        rows = source.read(torch.arange(SIZE)).rows
        on_disk: hr.FeatureSource = RowsOnDisk(rows)
        if source.quantization is not None:
            on_disk = hr.QuantizedFeature(on_disk, source.quantization.scale, source.quantization.zero_point)
        store = hr.FeatureStore(node={"x": on_disk, "y": torch.arange(SIZE)})
    elif place == "cache":
        store = hr.cached(store, node=["x"], bytes=1_000)
    elif place == "tiers":
        sizes = tier_sizes(replicated=7, host=9, num_devices=1)
        tiers = hr.TieredFeature(
            source, torch.arange(SIZE).flip(0), sizes, devices=[hr.Place("cuda", 0)], stand_ins=True
        )
        store = hr.FeatureStore(node={"x": tiers, "y": torch.arange(SIZE)})
    elif place == "reordered":
        moved = hr.reorder(sampled, store, order=torch.randperm(SIZE, generator=torch.Generator().manual_seed(seed)))
        sampled, store = moved.graph, moved.store
    plan = hr.ItemSampler(SIZE, batch_size=16, shuffle=True, seed=seed).sample_neighbor(sampled, [3, 2])
    with plan.fetch_feature(store, node=["x"], labels="y", dtype=dtype).loader() as loader:
        for batch in loader:
            assert batch.x.dtype == dtype
            assert torch.equal(batch.x, oracle(source, batch.n_id, dtype))
            assert batch.y.dtype == torch.int64  # labels stay
        counts = loader.stats()["fetch_feature"]
    row_bytes = 3 * source.dtype.itemsize
    assert counts["bytes"] == row_bytes * (counts["rows"] - SIZE) + 8 * SIZE  # those that are stored


@pytest.mark.parametrize("kind", [torch.float16, torch.int8], ids=str)
def test_files_are_read_by_windows_and_decoded(tmp_path, kind):
    """By `DiskFeature`, past the page cache as well: each row of a window once, and its bytes as they are stored."""
    source = hr.FeatureStore(node={"x": stored(kind, 0)}).node["x"]
    stored_rows = source.read(torch.arange(SIZE)).rows
    np.save(tmp_path / "x.npy", stored_rows.numpy())
    on_disk: hr.FeatureSource = hr.DiskFeature(tmp_path / "x.npy", direct=True)
    if source.quantization is not None:
        on_disk = hr.QuantizedFeature(on_disk, source.quantization.scale, source.quantization.zero_point)
    plan = hr.ItemSampler(SIZE, batch_size=8, seed=0).sample_neighbor(small(), [3, 2])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": on_disk}), node=["x"], dtype=torch.float32)
    with plan.loader(machine=hr.Machine(cores=1)) as loader:
        for batch in loader:
            assert torch.equal(batch.x, oracle(source, batch.n_id, torch.float32))
        counts = loader.stats()["fetch_feature"]
    assert counts["bytes_from_disk"] == 3 * kind.itemsize * counts["distinct_rows"] < counts["bytes"]


@pytest.mark.parametrize("case", ["cooperative", "not fused", "parts"])
def test_ranks_send_what_is_stored(case):
    """Cooperating ranks, and features in shards: the rows of one process, and a quarter of the bytes on the way."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NUM_NODES, 8, generator=generator)
    codes = hr.QuantizedFeature.of(x)
    how = codes.quantization
    partition = hr.Partition.hash(NUM_NODES, 2)

    def batches(comm):
        part, switches = codes, {"cooperative": True, "partition": partition, "fuse_exchange": case != "not fused"}
        if case == "parts":
            shard = hr.ShardedFeature.of(codes.codes.tensor, partition, comm.rank)
            part, switches = hr.QuantizedFeature(shard, how.scale, how.zero_point), {}
        store = hr.FeatureStore(node={"x": part})
        plan = hr.ItemSampler(NUM_NODES, batch_size=64, seed=5).sample_neighbor(graph(), [4, 3])
        with plan.fetch_feature(store, node=["x"], dtype=torch.float32).loader(comm=comm, **switches) as loader:
            found = [(batch.n_id, batch.x) for batch in loader]
            return found, loader.stats(), loader.explain()

    for found, stats, text in run_ranks(2, batches):
        assert "decode_rows" in text
        for ids, rows in found:
            assert torch.equal(rows, oracle(codes, ids, torch.float32))
        exchanged = next(counts for counts in stats.values() if counts.get("bytes_from_rank"))
        assert exchanged["bytes_from_rank"] % 8 == 0
        assert exchanged["bytes_from_rank"] < 8 * sum(len(ids) for ids, _ in found)


def test_the_dtype_is_part_of_the_plan_and_of_its_checkpoints():
    store = hr.FeatureStore(node={"x": torch.randn(SIZE, 2).half()})
    plan = hr.ItemSampler(SIZE, batch_size=8).sample_neighbor(small(), [2])
    plain, wide = (plan.fetch_feature(store, node=["x"], dtype=dtype) for dtype in (None, torch.float32))
    assert "dtype=torch.float32" in repr(wide)
    assert plain != wide
    with plain.loader() as loader, wide.loader() as other, pytest.raises(hr.StateError):
        other.load_state_dict(loader.state_dict())
    codes = torch.randint(0, 256, (SIZE, 2), dtype=torch.uint8)
    one, two = (
        plan.fetch_feature(
            hr.FeatureStore(node={"x": hr.QuantizedFeature(codes, scale)}), node=["x"], dtype=torch.float32
        )
        for scale in (0.5, 0.25)
    )
    with one.loader() as loader, two.loader() as other, pytest.raises(hr.StateError):
        other.load_state_dict(loader.state_dict())


CODED = hr.QuantizedFeature(torch.zeros(5, 2, dtype=torch.uint8), 0.5)


@pytest.mark.parametrize(
    ("feature", "arguments", "message"),
    [
        (torch.zeros(5), {"dtype": torch.int8}, "which cannot hold its values; .*QuantizedFeature.of"),
        (torch.zeros(5, dtype=torch.int64), {"dtype": torch.float32}, "got torch.int64; fetch it by another"),
        (torch.zeros(5, dtype=torch.uint8), {"dtype": torch.float32}, r"give codes their scale: hr\.Quantized"),
        (torch.zeros(5), {"dtype": "float32"}, "expected dtype to be a dtype of torch, got 'float32'"),
        (CODED, {}, "expected a dtype for node feature 'x', .* pass dtype=torch.float32 .* dtype=torch.uint8"),
        (CODED, {"dtype": torch.int8}, "which cannot hold its values"),
    ],
)
def test_refusals(feature, arguments, message):
    store = hr.FeatureStore(node={"x": feature})
    with pytest.raises(hr.InputError, match=message):
        hr.ItemSampler(5).fetch_feature(store, node=["x"], **arguments)


def test_labels_are_never_decoded():
    store = hr.FeatureStore(node={"y": CODED, "z": torch.zeros(5)})
    with pytest.raises(hr.InputError, match="labels are never decoded"):
        hr.ItemSampler(5).fetch_feature(store, node=["z"], labels="y", dtype=torch.float32)
    with pytest.raises(hr.InputError, match="got labels alone"):
        hr.ItemSampler(5).fetch_feature(store, labels="z", dtype=torch.float64)


def test_codes_by_their_own_dtype():
    plan = hr.ItemSampler(5, batch_size=5).fetch_feature(
        hr.FeatureStore(node={"x": CODED}), node=["x"], dtype=torch.uint8
    )
    assert torch.equal(next(iter(plan.loader())).x, CODED.codes.tensor)


def test_inference_takes_codes():
    """Of nodes and of edges: layers get the numbers."""
    nodes, edges = stored(torch.uint8, 0), hr.QuantizedFeature.of(torch.rand(small().num_edges, 1), torch.int8)
    numbers = oracle(nodes, torch.arange(SIZE), torch.float32)
    weights = oracle(edges, torch.arange(small().num_edges), torch.float32)

    def layer(h, block, weight):
        return block.aggregate(h, weight=weight.squeeze(1))

    found = []
    for x, w in ((nodes, edges), (numbers, edges), (numbers, weights)):
        store = hr.FeatureStore(node={"x": x}, edge={"w": w})
        found.append(hr.inference(torch.nn.Identity(), small(), store, layers=[layer], node="x", edge="w"))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[1], found[2])


@pytest.mark.parametrize("dtype", CODES)
def test_made_codes_are_half_a_scale_away_at_most(dtype):
    x = torch.randn(500, 6, generator=torch.Generator().manual_seed(2)) * torch.tensor([1e-3, 1, 5, 100, 0, 7])
    x[:, 5] += 3
    made = hr.QuantizedFeature.of(x, dtype)
    numbers = oracle(made, torch.arange(500), torch.float64)
    scale = made.quantization.scale.double()
    assert made.dtype == dtype
    assert bool(((numbers - x).abs() <= scale * 0.5001 + 1e-5 * x.abs()).all())
    assert torch.equal(numbers[:, 4], x[:, 4].double())  # one value alone


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hr.QuantizedFeature(torch.zeros(3), 1.0), "expected codes of int8 or uint8"),
        (lambda: hr.QuantizedFeature(CODED.codes, torch.ones(3)), r"scale to be finite, one number or \[2\]"),
        (lambda: hr.QuantizedFeature(CODED.codes, 1.0, float("nan")), "zero_point to be finite"),
        (lambda: hr.QuantizedFeature(CODED.codes, "a"), "expected scale to be a number"),
        (lambda: hr.QuantizedFeature(CODED.codes, math.nan), "expected scale to be finite, got nan"),
        (lambda: hr.QuantizedFeature.of(torch.full((2, 2), math.nan)), "on cpu with numbers that are not finite"),
        (lambda: hr.QuantizedFeature.of(torch.full((2, 2), np.inf)), "expected finite rows"),
        (lambda: hr.QuantizedFeature.of(torch.zeros(2, 2), torch.int16), "and torch.int16"),
    ],
)
def test_hostile_codes(make, message):
    with pytest.raises(hr.InputError, match=message):
        make()


def test_codes_and_their_scale_survive_files(tmp_path):
    """A data set and shards, with bfloat16 beside; the copy fetches the same rows, and has the same fingerprint."""
    store = hr.FeatureStore(
        node={"x": stored(torch.int8, 3), "h": stored(torch.bfloat16, 4)},
        edge={"e": hr.QuantizedFeature(torch.randint(0, 256, (300,), dtype=torch.uint8), 0.1, 7)},
    )
    hr.save_dataset(tmp_path / "set", small(), store, progress=False)
    opened = hr.open_dataset(tmp_path / "set")
    assert "of codes" in opened.info()
    write(tmp_path / "parts", small(), hr.Partition.range(SIZE, 1), store, whole={"h"})
    shards = hr.open_dataset(tmp_path / "parts", rank=0)
    plan = hr.ItemSampler(SIZE, batch_size=10, seed=1)
    wanted = {"node": ["x", "h"], "edge": ["e"], "dtype": torch.float32}
    first, *others = (
        list(plan.sample_neighbor(one, [3]).fetch_feature(features, **wanted).loader())
        for one, features in ((small(), store), (opened.graph, opened.store), (shards.graph, shards.store))
    )
    for other in others:
        for batch, same in zip(first, other, strict=True):
            assert torch.equal(batch.x, same.x)
            assert torch.equal(batch.node["h"], same.node["h"])
            assert torch.equal(batch.edge["e"][0], same.edge["e"][0])
    assert opened.store.content_digest() == store.content_digest() == shards.store.content_digest()


def test_written_codes_are_read(tmp_path):
    codes = torch.zeros(4, 2, dtype=torch.uint8)
    store = hr.FeatureStore(node={"x": hr.QuantizedFeature(codes, 2.0)})
    plan = hr.ItemSampler(4, batch_size=1).fetch_feature(store, node=["x"], dtype=torch.float32)
    seen = []
    for batch in plan.loader():
        seen.append(float(batch.x[0, 0]))
        codes += 1
    assert seen == [0, 2, 4, 6]


def test_copies_keep_the_scale():
    store = hr.FeatureStore(node={"x": stored(torch.uint8, 5)})
    again = copy.deepcopy(store.node["x"])
    assert again == store.node["x"]
    assert dataclasses.replace(again.quantization, scale=again.quantization.scale * 2) != again.quantization
