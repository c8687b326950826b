"""What sources of users return is checked, on every path by which rows are fetched."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from ranks import run_ranks
from tier_sizes import tier_sizes

import headrace as hr

NUM_NODES = 60
X, Y, E = torch.randn(NUM_NODES, 4), torch.arange(NUM_NODES), torch.randn(NUM_NODES, 3)
GRAPH = hr.Graph.from_coo(torch.arange(NUM_NODES), (torch.arange(NUM_NODES) + 1) % NUM_NODES, num_nodes=NUM_NODES)
SMALL = hr.Machine(cores=1, memory=1 << 12)

Rows = Callable[[torch.Tensor, torch.Tensor], object]


class Source(hr.FeatureSource):
    """Returns what a function makes of a table and ids."""

    def __init__(self, table: torch.Tensor, rows: Rows, **members: object) -> None:
        self.table, self.rows = table, rows
        self.dtype, self.shape = table.dtype, tuple(table.shape)
        self.__dict__.update(members)

    def read(self, ids, *, num_threads=1, to=None):
        returned = self.rows(self.table, ids)
        return (
            returned if isinstance(returned, tuple) or returned is None else hr.Rows(returned, {"own_rows": len(ids)})
        )

    def content_digest(self):
        return "source"


def store(rows: Rows, over=lambda source: source, **members: object) -> hr.FeatureStore:
    def source(table: torch.Tensor) -> object:
        return over(Source(table, rows, **members))

    return hr.FeatureStore(node={"x": source(X), "y": source(Y)}, edge={"e": source(E)})


def plan(features: hr.FeatureStore) -> hr.Plan:
    sampled = hr.ItemSampler(NUM_NODES, batch_size=8, seed=0).sample_neighbor(GRAPH, [2])
    return sampled.fetch_feature(features, node=["x"], edge=["e"], labels="y")


def load(features: hr.FeatureStore, **options: object) -> list[hr.MiniBatch]:
    with plan(features).loader(**options) as loader:
        batches = list(loader)
        assert isinstance(str(loader.stats()), str)
    return batches


def check_batches(batches: list[hr.MiniBatch]) -> None:
    """All batches of the epoch are kept until here, so that none may have the memory of a later one."""
    assert sorted(torch.cat([batch.seeds for batch in batches]).tolist()) == list(range(NUM_NODES))
    for batch in batches:
        assert torch.equal(batch.x, X[batch.n_id])
        assert torch.equal(batch.y, Y[batch.seeds])
        assert torch.equal(batch.edge["e"][0], E[batch.blocks[0].edge_ids])


PATHS = {
    "threads": lambda rows: load(store(rows)),
    "one thread": lambda rows: load(store(rows), prefetch=False),
    "cache": lambda rows: load(store(rows, lambda source: hr.CachedFeature(source, rows=9))),
    "static cache": lambda rows: load(
        store(rows, lambda source: hr.CachedFeature(source, "static", ids=torch.arange(0, NUM_NODES, 3)))
    ),
    "tiers": lambda rows: load(
        store(rows, lambda source: hr.TieredFeature(source, torch.arange(NUM_NODES), tier_sizes(host=20)))
    ),
    "windows": lambda rows: load(store(rows, place=hr.Place("disk")), machine=SMALL),
    "announced": lambda rows: load(store(rows, foresight=50)),
    "within another": lambda rows: load(store(rows, Within)),
}


class Within(hr.FeatureSource):
    """A cache of a user, which caches nothing."""

    def __init__(self, source: hr.FeatureSource) -> None:
        self.source, self.dtype, self.shape = source, source.dtype, source.shape

    def read(self, ids, *, num_threads=1, to=None):
        return self.source.read(ids, num_threads=num_threads)

    def content_digest(self):
        return self.source.content_digest()


def gathered(table, ids):
    return table[ids]


def into_a_buffer():
    """Return what writes all rows to one buffer of each table."""
    buffers: dict[int, torch.Tensor] = {}

    def rows(table, ids):
        buffer = buffers.setdefault(id(table), torch.empty((2 * NUM_NODES, *table.shape[1:]), dtype=table.dtype))
        return torch.index_select(table, 0, ids.long(), out=buffer[: len(ids)])

    return rows


def into_an_array():
    """Return the same for a buffer of NumPy, whose uses nobody counts."""
    buffers: dict[int, np.ndarray] = {}

    def rows(table, ids):
        array = table.numpy()
        buffer = buffers.setdefault(id(table), np.empty((2 * NUM_NODES, *table.shape[1:]), array.dtype))
        return torch.from_numpy(np.take(array, ids.numpy(), 0, out=buffer[: len(ids)]))

    return rows


def writes_ids(table, ids):
    rows = table[ids]
    ids.fill_(3)
    return rows


def remembered():
    """Return what returns the same rows again, and writes into what it returned before."""
    last: list[hr.Rows] = []

    def rows(table, ids):
        for old in last:
            old.rows.zero_()
        last[:] = [hr.Rows(table[ids], {})]
        return last[0]

    return rows


RIGHT = {
    "rows": lambda: gathered,
    "buffer": into_a_buffer,
    "array": into_an_array,
    "writes ids": lambda: writes_ids,
    "remembered": remembered,
    "array of its own": lambda: lambda table, ids: torch.from_numpy(table.numpy()[ids.numpy()]),
    "in a tuple": lambda: lambda table, ids: (table[ids], {"n": np.int64(2), "m": torch.tensor(3), "f": 0.5}),
    "without counts": lambda: lambda table, ids: (table[ids],),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rows", RIGHT)
def test_rows_belong_to_their_batch(path, rows):
    if rows == "remembered" and path in ("threads", "announced", "within another"):
        pytest.skip("it is no function that threads may call at once")
    check_batches(PATHS[path](RIGHT[rows]()))


WRONG = {
    "too few": (lambda table, ids: table[ids][:-1], "to return .* for .* ids, as its dtype and shape declare, got"),
    "too many": (lambda table, ids: torch.cat([table[ids], table[:1]]), "declare, got .*, of another shape;"),
    "of another dtype": (
        lambda table, ids: table[ids].to(torch.float16),
        r"declare, got float16\[.*, of another dtype;",
    ),
    "of another width": (lambda table, ids: table[ids][:, None], "as its dtype and shape declare, got"),
    "elsewhere": (lambda table, ids: table[ids].to("meta"), "on cpu for .*, got .* on meta"),
    "sparse": (lambda table, ids: table[ids].to_sparse(), "of layout torch.sparse_coo"),
    "array": (lambda table, ids: table[ids].numpy(), "got ndarray"),
    "nothing": (lambda table, ids: None, "to return rows and counts, got NoneType"),
    "three": (lambda table, ids: (table[ids], {}, 1), "to return rows and counts, got 3 values"),
    "no counts": (lambda table, ids: (table[ids], None), "to return its counts, got NoneType"),
    "nan": (lambda table, ids: (table[ids], {"n": float("nan")}), "to count in finite numbers by name, got 'n': nan"),
    "text": (lambda table, ids: (table[ids], {"n": "1"}), "to count in finite numbers by name, got 'n': '1'"),
    "several": (lambda table, ids: (table[ids], {"n": torch.ones(2)}), r"got 'n': float32\[2\]"),
    "tuple around": (lambda table, ids: (hr.Rows(table[ids]),), "got a tuple around Rows, as of a comma behind it"),
    "number": (lambda table, ids: (table[ids], {1: 1}), "to count in finite numbers by name, got 1: 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rows", WRONG)
def test_what_are_no_such_rows_is_refused(path, rows):
    returned, match = WRONG[rows]
    name = "Within" if path == "within another" else "Source"
    with pytest.raises(hr.InputError, match=rf"feature '[xye]': expected {name}\.read .*{match}"):
        PATHS[path](returned)


def test_the_stage_and_the_batch_are_named():
    with pytest.raises(hr.InputError) as caught:
        load(store(WRONG["too few"][0]))
    assert any("in stage fetch_feature, batch 0 of epoch 0" in note for note in caught.value.__notes__)


def test_rows_that_learn_are_refused():
    learning = Source(X, lambda table, ids: table[ids].requires_grad_())
    with pytest.raises(hr.InputError, match=r"Source.read: expected rows without a gradient, got float32"):
        load(hr.FeatureStore(node={"x": learning, "y": Y}, edge={"e": E}))


@pytest.mark.parametrize("rows", ["too few", "of another dtype"])
def test_ranks_that_exchange_rows_refuse_them(rows):
    features = store(WRONG[rows][0])

    def load_rank(comm: hr.Comm) -> None:
        list(plan(features).loader(cooperative=True, comm=comm, partition=hr.Partition.hash(NUM_NODES, 2)))

    with pytest.raises((hr.InputError, hr.PeerError), match=r"expected Source\.read to return"):
        run_ranks(2, load_rank)


def test_other_readers_refuse_them(tmp_path):
    wrong = store(WRONG["too few"][0])
    with pytest.raises(hr.InputError, match=r"expected Source\.read to return"):
        hr.save_dataset(tmp_path / "data", GRAPH, wrong)
    with pytest.raises(hr.InputError, match=r"expected Source\.read to return"):
        quantized = hr.QuantizedFeature(Source(X.to(torch.int8), WRONG["too few"][0]), 0.5)
        list(
            hr.ItemSampler(9)
            .fetch_feature(hr.FeatureStore(node={"x": quantized}), node=["x"], dtype=torch.float32)
            .loader()
        )
    with pytest.raises(hr.InputError, match=r"expected Source\.read to return 60 rows and counts, got int64\[59\]"):
        hr.ItemSampler(Source(Y, WRONG["too few"][0]))
    with pytest.raises(hr.InputError, match=r"expected Source\.read to return 60 rows and counts, got NoneType"):
        hr.ItemSampler(Source(Y, WRONG["nothing"][0]))


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"dtype": "float32"}, "Source.dtype to be a dtype of torch, got 'float32'"),
        ({"shape": NUM_NODES}, "Source.shape to be a tuple of sizes, the number of rows first, got 60"),
        ({"shape": (NUM_NODES, 4.0)}, "Source.shape to be an integer of at least 0, got 4.0"),
        ({"num_rows": 59}, r"Source.num_rows to be that of its shape, \[60, 4\], got 59"),
        ({"num_rows": None}, "Source.num_rows to be an integer of at least 0, got None"),
        ({"row_bytes": "16"}, "Source.row_bytes to be an integer of at least 0, got '16'"),
        ({"place": "disk"}, "Source.place to be an hr.Place, got 'disk'"),
        ({"foresight": None}, "Source.foresight to be an integer of at least 0, got None"),
        (
            {"rows_in_place": X.double()},
            r"rows_in_place to be float32\[60, 4\], as its dtype and shape are, got float64",
        ),
        ({"rows_in_place": X[:7]}, r"rows_in_place to be float32\[60, 4\], .* got float32\[7, 4\]"),
        ({"rows_in_place": X.numpy()}, r"rows_in_place to be a tensor of all rows, or None, got float32\[60, 4\]"),
        ({"read": None}, "Source.read to be a method, got NoneType"),
        ({"content_digest": None}, "Source.content_digest to return a string, a number or bytes, got None"),
        ({"content_digest": lambda x: x}, r"Source.content_digest to take \(\), got a function of \(x\), which needs"),
    ],
)
def test_what_is_declared_is_checked_before_work_starts(members, match):
    sampled = hr.ItemSampler(NUM_NODES, seed=0).sample_neighbor(GRAPH, [2])
    with pytest.raises(hr.InputError, match=f"node feature 'x': expected .*{match}"):
        sampled.fetch_feature(hr.FeatureStore(node={"x": Source(X, gathered, **members)}), node=["x"]).loader()


def test_sizes_of_any_kind_are_sizes():
    source = Source(X, gathered, shape=[np.int64(NUM_NODES), 4], num_rows=np.int64(NUM_NODES))
    batch = next(
        iter(hr.ItemSampler(9, seed=0).fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"]).loader())
    )
    assert torch.equal(batch.x, X[:9])


def test_a_digest_is_a_method_or_an_attribute():
    def state(digest: object) -> object:
        features = hr.FeatureStore(node={"x": Source(X, gathered, content_digest=digest)})
        return hr.ItemSampler(9, seed=0).fetch_feature(features, node=["x"]).loader().state_dict()["plan"]

    assert state("a") == state(lambda: "a")
    assert state(b"\x01") == state(lambda: b"\x01") != state(1)
    with pytest.raises(hr.InputError, match=r"content_digest to return a string, a number or bytes, got None"):
        state(lambda: None)


def test_a_source_without_rows_is_refused_before_work_starts():
    class Without(hr.FeatureSource):
        dtype, shape = X.dtype, tuple(X.shape)

        def reads(self, ids, *, num_threads=1):
            return hr.Rows(X[ids])

    plan = hr.ItemSampler(9, seed=0).fetch_feature(hr.FeatureStore(node={"x": Without()}), node=["x"])
    match = r"node feature 'x': expected Without.read to be a method of its own, or rows_in_place to be a tensor of all"
    with pytest.raises(hr.InputError, match=match):
        plan.loader()


class Placing(Source):
    """Writes rows where they are wanted, with what it is given."""

    counts: object = {"placed": 1}

    def read_into(self, ids, out, *, places=None, num_threads=1):
        out[torch.arange(len(ids)) if places is None else places] = self.table[ids]
        ids.zero_()
        if places is not None:
            places.zero_()
        return self.counts


def test_a_source_that_places_rows_may_write_into_what_it_is_given():
    members = {"place": hr.Place("disk")}
    features = hr.FeatureStore(
        node={"x": Placing(X, gathered, **members), "y": Y}, edge={"e": Placing(E, gathered, **members)}
    )
    check_batches(load(features, machine=SMALL))
    broken = Placing(X, gathered, counts={"placed": "1"}, **members)
    with pytest.raises(hr.InputError, match=r"Placing.read_into to count in finite numbers by name, got 'placed': '1'"):
        load(hr.FeatureStore(node={"x": broken, "y": Y}, edge={"e": E}), machine=SMALL)


ORDERS = {
    "one number": (lambda ids: ids * 0, r"0 \d+ times"),
    "beyond": (lambda ids: torch.arange(len(ids)) + 1, r"1 to \d+;"),
    "fewer": (lambda ids: ids[:-1], r"int64\[\d+\]"),
    "nothing": (lambda ids: None, "NoneType"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_reading_order_has_each_row_once(order):
    function, got = ORDERS[order]
    source = Source(X, gathered, place=hr.Place("disk"), reading_order=function)
    match = rf"Source.reading_order to return the numbers 0 to \d+, each once, as int64, got {got}"
    with pytest.raises(hr.InputError, match=match):
        load(hr.FeatureStore(node={"x": source, "y": Y}, edge={"e": E}), machine=SMALL)


def test_ids_that_are_announced_may_be_written():
    class Expecting(Source):
        foresight = 40

        def expect(self, ids):
            ids.zero_()

    check_batches(load(hr.FeatureStore(node={"x": Expecting(X, gathered), "y": Y}, edge={"e": E})))


def test_rows_of_their_own_are_not_copied():
    returned = []

    def rows(table, ids):
        read = table[ids]
        returned.append(read.data_ptr())
        return read

    features = hr.FeatureStore(node={"x": Source(X, rows)})
    batches = list(hr.ItemSampler(NUM_NODES, batch_size=8).fetch_feature(features, node=["x"]).loader(prefetch=False))
    assert [batch.x.data_ptr() for batch in batches] == returned


def test_sources_of_users_are_copied_with_what_they_hold():
    features = store(gathered)
    for other in (copy.deepcopy(features), copy.copy(features)):
        check_batches(load(other))
    table = hr.FeatureStore(node={"x": Table()})
    again = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    assert torch.equal(again.node["x"].read(torch.tensor([2])).rows, X[2:3])


class Table(hr.FeatureSource):
    def __init__(self) -> None:
        self.rows_in_place = X
