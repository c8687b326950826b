# What headrace.ops uses of the compiled module (ops/native/bindings*.cpp).

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.ops.sampling.layer_reducer import LayerReducer

Int64Array: TypeAlias = NDArray[np.int64]
IdArray: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
Rows: TypeAlias = Int64Array | tuple[Int64Array, NDArray[np.uint64], int]
WeightArray: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Excluded: TypeAlias = tuple[Int64Array, Int64Array, Int64Array, Int64Array | None]
Trees: TypeAlias = tuple[Int64Array, int, Int64Array | None, Int64Array | None, Int64Array | None]
EdgeRows: TypeAlias = tuple[Int64Array, IdArray, IdArray | None]
Scores: TypeAlias = tuple[
    NDArray[Any],
    NDArray[Any],
    NDArray[Any] | None,
    NDArray[Any] | None,
    float,
    int,
    int,
    float,
    Int64Array | None,
]
State: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Block: TypeAlias = tuple[Int64Array, IdArray, Int64Array | None, NDArray[np.float32] | None, int]

def rule_traits() -> dict[str, dict[str, bool]]: ...

class Rule:
    def __init__(self, kind: str, fanout: int, rounds: int = 0, by_weight: bool = False) -> None: ...

class VariateKeys:
    def __init__(self, key: int, next_key: int = 0, step: int = 0, num_steps: int = 1) -> None: ...
    @property
    def cosine(self) -> float: ...
    @property
    def sine(self) -> float: ...

Keys: TypeAlias = int | VariateKeys

class InstructionSet(Enum):
    PORTABLE = 0
    AVX2 = 1
    AVX512 = 2

class Relation:
    def __init__(self, first_node: int, end_node: int, first_row: int, stride: int) -> None: ...

class FusedSampler:
    def __init__(
        self,
        indptr: Rows,
        indices: IdArray,
        edge_ids: IdArray | None,
        weights: WeightArray | None,
        relations: Sequence[Relation] = (),
        num_nodes: int | None = None,
        first_number: int = 1,
        most_slots: int = ...,
        times: Int64Array | None = None,
    ) -> None: ...
    def scratch_bytes(self) -> int: ...
    def sample(
        self,
        seeds: Int64Array,
        rules: Sequence[Sequence[Rule]],
        keys: Sequence[Keys],
        expand_new: bool,
        want_edge_ids: bool,
        num_threads: int,
        excluded: Excluded | None = None,
        trees: Trees | None = None,
    ) -> tuple[Int64Array, list[Block], list[int], list[int], Int64Array | None]: ...

class NegativeLaw(Enum):
    UNIFORM = 0
    IN_DEGREE = 1
    WEIGHT = 2

class DiskReader:
    def __init__(
        self,
        descriptor: int,
        name: str,
        start: int,
        num_rows: int,
        row_bytes: int,
        io_uring: bool,
        queue_depth: int,
        gap_bytes: int,
        direct: bool,
    ) -> None: ...
    def is_direct(self) -> bool: ...
    def set_gap_bytes(self, gap_bytes: int) -> None: ...
    def read(self, ids: IdArray, out: int, num_out: int, places: Int64Array | None = None) -> tuple[int, int]: ...

class Compactor:
    def __init__(self, num_nodes: int, first_number: int = 1, most_slots: int = ...) -> None: ...
    def scratch_bytes(self) -> int: ...
    def compact(self, seen: Int64Array, neighbors: IdArray) -> tuple[Int64Array, IdArray]: ...

class CachePolicy(Enum):
    STATIC = 0
    LRU = 1
    CLOCK = 2
    S3_FIFO = 3
    SIEVE = 4
    LOOK_AHEAD = 5

class CacheLookup:
    hit_slots: Int64Array
    hit_positions: Int64Array
    miss_ids: Int64Array
    miss_positions: Int64Array
    fill_slots: Int64Array
    fill_positions: Int64Array
    repeated_positions: Int64Array
    repeat_positions: Int64Array
    holds_slots: bool
    def finish(self, filled: bool) -> None: ...

class CacheIndex:
    counts: tuple[int, int, int, int, int]
    ids_in_slots: Int64Array
    num_expected: int
    num_bytes: int
    def __init__(
        self,
        policy: CachePolicy,
        capacity: int,
        num_rows: int,
        fixed: Int64Array | None = None,
        levels: NDArray[np.uint8] | None = None,
    ) -> None: ...
    def look_up(self, ids: Int64Array) -> CacheLookup: ...
    def invalidate(self, ids: Int64Array) -> None: ...
    def invalidate_all(self) -> None: ...
    def expect(self, ids: Int64Array) -> None: ...
    def expect_nothing(self) -> None: ...

def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]: ...
def stream_key(seed: int, epoch: int, batch: int, layer: int, purpose: int) -> int: ...
def stream_words(key: int, identifier: int, num_words: int) -> NDArray[np.uint32]: ...
def bounded_integers(key: int, identifier: int, bound: int, count: int) -> NDArray[np.uint64]: ...
def shuffled_range(num_items: int, start: int, stop: int, key: int) -> Int64Array: ...
def feistel_range(num_items: int, start: int, stop: int, key: int) -> Int64Array: ...
def coo_to_csc(
    src: NDArray[Any], dst: NDArray[Any], num_nodes: int, num_threads: int
) -> tuple[Int64Array, IdArray, IdArray | None]: ...
def check_csc(indptr: Int64Array, indices: IdArray, num_ids: int, num_threads: int) -> None: ...
def order_of_rows(indptr: Int64Array, keys: Int64Array, num_threads: int) -> Int64Array | None: ...
def typed_rows(
    indptr: Int64Array,
    edge_ids: IdArray | None,
    first_edges: Int64Array,
    first_nodes: Int64Array,
    ends: NDArray[np.bool_],
    num_threads: int,
) -> Int64Array: ...
def has_parallel_edges(indptr: Int64Array, indices: IdArray, num_threads: int) -> bool: ...
def check_weights(indptr: Int64Array, weights: WeightArray, num_threads: int) -> None: ...
def compact(seen: Int64Array, neighbors: IdArray) -> tuple[Int64Array, IdArray]: ...
def rank_rows(ids: Int64Array, num_ids: int) -> NDArray[np.uint64]: ...
def find_rows(blocks: NDArray[np.uint64], num_ids: int, ids: Int64Array) -> Int64Array: ...
def find_edges(
    indptr: Rows,
    indices: IdArray,
    sources: Int64Array,
    destinations: Int64Array,
    num_threads: int,
    slots: Int64Array | None = None,
) -> Excluded: ...
def draw_negatives(
    indptr: Rows,
    indices: IdArray,
    first: int,
    last: int,
    law: NegativeLaw,
    sums: NDArray[np.float64] | None,
    counts: Int64Array,
    sources: Int64Array | None,
    order: Int64Array | None,
    prefix: Int64Array | None,
    first_pair: int,
    key: int,
    num_threads: int,
) -> Int64Array: ...
def sample_hop(
    indptr: Rows,
    indices: IdArray,
    frontier: Int64Array,
    rules: Sequence[Rule],
    key: Keys,
    weights: WeightArray | None,
    num_threads: int,
    reducer: LayerReducer | None = None,
    parallel_edges: bool = True,
    slots: Int64Array | None = None,
    times: Int64Array | None = None,
    bounds: Int64Array | None = None,
    lows: Int64Array | None = None,
    excluded: Excluded | None = None,
    relations: Sequence[Relation] = ...,
    num_nodes: int | None = None,
) -> tuple[Int64Array, IdArray, Int64Array, NDArray[np.float32] | None]: ...
def has(instructions: InstructionSet) -> bool: ...
def use_instruction_set(instructions: InstructionSet) -> bool: ...
def share_all_work(on: bool) -> None: ...
def threads_in_pool() -> int: ...
def labor_scan(
    ids: IdArray, keys: Keys, bound: int, wanted: int, instructions: InstructionSet
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]: ...
def labor_variates(key: Keys, sources: IdArray, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]: ...
def has_io_uring() -> bool: ...
def empty(num_bytes: int) -> NDArray[np.uint8]: ...
def trim_pool() -> int: ...
def use_huge_pages(memory: int, num_bytes: int) -> int: ...
def gather_rows(
    source: int,
    num_rows: int,
    row_stride: int,
    row_bytes: int,
    ids: IdArray,
    out: int,
    num_threads: int,
    places: Int64Array | None = None,
    num_out: int = 0,
) -> None: ...
def decode_rows(
    source: int,
    num_rows: int,
    row_stride: int,
    width: int,
    dtype: str,
    scale: NDArray[np.float32] | None,
    zero_point: NDArray[np.float32] | None,
    ids: IdArray | None,
    out: int,
    out_dtype: str,
    num_threads: int,
) -> None: ...
def locate_rows(
    rank: IdArray,
    ids: IdArray,
    replicated: int,
    interleaved: int,
    num_devices: int,
    host: int,
    here: int,
    num_threads: int,
) -> tuple[NDArray[np.int32], Int64Array]: ...
def gather_tables(
    tables: list[tuple[int, int]],
    row_bytes: int,
    table: NDArray[np.int32],
    row: Int64Array,
    out: int,
    num_threads: int,
    places: Int64Array | None = None,
    num_out: int = 0,
) -> None: ...
def labor_importance(
    indptr: Int64Array,
    indices: IdArray,
    frontier: Int64Array,
    fanout: int,
    rounds: int,
    weights: WeightArray | None,
    num_threads: int,
    reducer: LayerReducer | None = None,
) -> tuple[Int64Array, NDArray[np.float64], NDArray[np.float64], list[float]]: ...
def draw_ladies(
    indptr: Int64Array,
    indices: IdArray,
    frontier: Int64Array,
    size: int,
    poisson: bool,
    key: int,
    weights: WeightArray | None,
    num_threads: int,
    reducer: LayerReducer | None = None,
) -> tuple[Int64Array, NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]: ...
def random_walk(
    indptr: Int64Array,
    indices: IdArray,
    weights: WeightArray | None,
    sums: NDArray[np.float64] | None,
    starts: Int64Array,
    ids: Int64Array | None,
    length: int,
    restart: int,
    key: int,
    num_threads: int,
) -> Int64Array: ...
def pinsage_neighbors(
    indptr: Int64Array,
    indices: IdArray,
    weights: WeightArray | None,
    sums: NDArray[np.float64] | None,
    frontier: Int64Array,
    num_neighbors: int,
    num_walks: int,
    length: int,
    restart: int,
    key: int,
    num_threads: int,
) -> tuple[Int64Array, IdArray, Int64Array]: ...
def sum_rows(indptr: Int64Array, weights: WeightArray, num_threads: int) -> NDArray[np.float64]: ...
def induced_subgraph(
    indptr: Int64Array, indices: IdArray, nodes: Int64Array, num_threads: int
) -> tuple[Int64Array, IdArray, Int64Array]: ...
def sum_inverse_degrees(indptr: Int64Array, indices: IdArray, power: int, skip_loops: bool) -> NDArray[np.float64]: ...
def draw_by_weight(sums: NDArray[np.float64], num_draws: int, key: int, num_threads: int) -> Int64Array: ...
def draw_edges(
    indptr: Int64Array, indices: IdArray, destinations: Int64Array, num_draws: int, key: int, num_threads: int
) -> Int64Array: ...
def saint_weights(
    indptr: Int64Array,
    indices: IdArray,
    touch: NDArray[np.float64],
    degrees: Int64Array,
    num_draws: int,
    num_rows: int,
    num_threads: int,
) -> NDArray[np.float32]: ...
def scatter_add_float32(out: int, num_rows: int, width: int, ids: IdArray, rows: int, num_threads: int) -> None: ...
def scatter_add_float64(out: int, num_rows: int, width: int, ids: IdArray, rows: int, num_threads: int) -> None: ...
def hash_owners(ids: Int64Array, num_parts: int) -> NDArray[np.int32]: ...
def group_by_owner(
    ids: Int64Array | None, owners: NDArray[np.int32], num_parts: int, first: int
) -> tuple[Int64Array, Int64Array, Int64Array]: ...
def stream_partition(
    indptr: Int64Array, indices: IdArray, num_parts: int, capacity: int, passes: int, shuffle: bool, key: int
) -> NDArray[np.int32]: ...
def count_parts(
    indptr: Int64Array,
    indices: IdArray,
    owners: NDArray[np.int32],
    num_parts: int,
    num_columns: int,
    want_between: bool,
) -> tuple[Int64Array, Int64Array, Int64Array | None, int]: ...
def sum_to_sources(
    indptr: Int64Array, indices: IdArray, values: NDArray[np.float64], num_threads: int
) -> NDArray[np.float64]: ...
def reach_sources(
    indptr: Int64Array,
    indices: IdArray,
    frontier: NDArray[np.float64],
    row_picks: NDArray[np.float64],
    edge_picks: NDArray[np.float32] | None,
    order: Int64Array | None,
    num_threads: int,
) -> NDArray[np.float64]: ...
def dropout_mask(key: int, ids: Int64Array, width: int, threshold: int, num_threads: int) -> NDArray[np.bool_]: ...
def join_hops(
    indptrs: list[Int64Array], indices: list[IdArray], edge_ids: list[Int64Array] | None
) -> tuple[Int64Array, Int64Array | None, list[Int64Array], list[int]]: ...
def spmm(
    rows: EdgeRows,
    x: NDArray[Any],
    out: NDArray[Any],
    weights: NDArray[Any] | None,
    divisors: NDArray[Any] | None,
    fresh: bool,
    num_threads: int,
) -> None: ...
def spmm_extreme(
    rows: EdgeRows,
    x: NDArray[Any],
    out: NDArray[Any],
    winners: Int64Array,
    weights: NDArray[Any] | None,
    largest: bool,
    fresh: bool,
    last: bool,
    num_threads: int,
) -> None: ...
def spmm_winners(
    rows: EdgeRows,
    gradients: NDArray[Any],
    winners: Int64Array,
    out: NDArray[Any],
    weights: NDArray[Any] | None,
    fresh: bool,
    num_threads: int,
) -> None: ...
def sddmm(
    rows: EdgeRows,
    a: NDArray[Any],
    b: NDArray[Any],
    out: NDArray[Any],
    winners: Int64Array | None,
    num_threads: int,
) -> None: ...
def attend(
    rows: EdgeRows,
    scores: Scores,
    x: NDArray[Any],
    state: State,
    fresh: bool,
    last: bool,
    num_threads: int,
) -> None: ...
def attend_backward(
    rows: EdgeRows,
    scores: Scores,
    x: NDArray[Any],
    state: State,
    gradients: NDArray[Any],
    by_scores: NDArray[Any],
    by_other: NDArray[Any] | None,
    to_sources: bool,
    num_threads: int,
) -> None: ...
