"""Slow, obvious NumPy versions of every function of headrace.ops: the oracles of the tests.

Nothing here is fast or shares code with the kernels. Arrays are NumPy arrays, ids are int64, loops are Python loops,
and each function is the sentence that defines its counterpart. Bits agree with the kernels, floating point included:
all of it is IEEE double precision in the written order, with no library call whose rounding is not specified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.sampling.rules import LaborRule, NeighborRule, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

_MASK32 = (1 << 32) - 1
_MASK64 = (1 << 64) - 1


# --- random numbers ---------------------------------------------------------------------------------------------------


def philox4x32(counter: Sequence[int], key: Sequence[int], rounds: int = 10) -> tuple[int, int, int, int]:
    """Philox4x32 of a counter of four and a key of two 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (product1 >> 32) ^ c1 ^ k0, product1 & _MASK32, (product0 >> 32) ^ c3 ^ k1, product0 & _MASK32
        k0, k1 = (k0 + 0x9E3779B9) & _MASK32, (k1 + 0xBB67AE85) & _MASK32
    return c0, c1, c2, c3


def stream_key(seed: int, epoch: int, batch: int, layer: int, purpose: int) -> int:
    """Step 1 of the contract in headrace.ops.random.rng."""
    counter = (epoch, batch & _MASK32, batch >> 32, layer | purpose << 16)
    words = philox4x32(counter, (seed & _MASK32, seed >> 32))
    return words[0] | words[1] << 32


def stream_words(key: int, identifier: int, number: int = 0) -> Iterator[int]:
    """Step 2 of the contract: the 32-bit words of one id's stream, or of its second or third one, without end."""
    block = 0
    while True:
        yield from philox4x32((identifier & _MASK32, identifier >> 32, block, number), (key & _MASK32, key >> 32))
        block += 1


def half_words(words: Iterator[int]) -> Iterator[int]:
    """Yield the lower sixteen bits of each word, then the upper ones."""
    for word in words:
        yield word & 0xFFFF
        yield word >> 16


def stream_variates(key: int, identifier: int) -> Iterator[int]:
    """64-bit variates of one id: half words of its first two streams, then words of its third."""
    first, second, third = (stream_words(key, identifier, number) for number in range(3))
    for upper, middle, lower in zip(half_words(first), half_words(second), third, strict=True):
        yield upper << 48 | middle << 32 | lower


def bounded(words: Iterator[int], bound: int) -> int:
    """Uniform integer below `bound` by Lemire's multiply-shift with rejection."""
    if bound == 1:
        return 0
    bits = 32 if bound < 1 << 32 else 64
    while True:
        value = next(words) if bits == 32 else next(words) | next(words) << 32
        product = value * bound
        if product % (1 << bits) >= (1 << bits) % bound:
            return product >> bits


def labor_variate(key: int, vertex: int, number: int = 0) -> int:
    """r_t of LABOR as a 64-bit integer; of an edge behind `number` others from t to the same vertex its own."""
    high, low, *_ = philox4x32((vertex & _MASK32, vertex >> 32, number, 0), (key & _MASK32, key >> 32), rounds=7)
    return high << 32 | low


def edge_variates(key: int, sources: IntArray) -> list[int]:
    """Return the variate of each edge of the row of in-neighbours `sources`."""
    listed = [int(source) for source in sources]
    return [labor_variate(key, t, listed[:i].count(t)) for i, t in enumerate(listed)]


def unit_interval(variate: int) -> float:
    """Map 64 bits to the open unit interval: the odd multiple of 2**-53 that the upper 52 bits name."""
    return (2 * (variate >> 12) + 1) * 2.0**-53


def negative_log(u: float) -> float:
    """-ln(u) for u in (0, 1), by a fixed sequence of double precision operations.

    u = m * 2**e with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), z = s * s,
    ln(m) = 2s + 2s * z * (1/3 + z/5 + z**2/7 + ... + z**10/23).
    """
    mantissa, exponent = np.frexp(np.float64(u))  # mantissa in [1/2, 1)
    m, e = float(mantissa), int(exponent)
    if m < 0.7071067811865476:
        m, e = m + m, e - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1.0 / 23.0
    for denominator in range(21, 1, -2):
        series = series * z + 1.0 / denominator
    twice = s + s
    log_m = twice + twice * (z * series)
    # ln(2) in two parts: the first has trailing zeros, so that its product with e is exact.
    return -(e * 6.93147180369123816490e-01 + (log_m + e * 1.90821492927058770002e-10))


# --- items ------------------------------------------------------------------------------------------------------------


def shuffled_range(num_items: int, start: int, stop: int, key: int) -> IntArray:
    """Fisher and Yates up to 2**20 items, beyond that the Feistel network."""
    return fisher_yates(num_items, key)[start:stop] if num_items <= 1 << 20 else feistel(num_items, start, stop, key)


def fisher_yates(num_items: int, key: int) -> IntArray:
    """From the last place to the second: change items with a random place that does not come later."""
    order, words = np.arange(num_items), stream_words(key, 0)
    for i in range(num_items - 1, 0, -1):
        j = bounded(words, i + 1)
        order[[i, j]] = order[[j, i]]
    return order


def feistel(num_items: int, start: int, stop: int, key: int) -> IntArray:
    """Feistel network of ten rounds on an even grid, with cycle walking."""
    root = math.isqrt(max(num_items, 1) - 1) + 1
    columns = root + root % 2
    least = -(-num_items // columns)
    rows = least + least % 2

    def addend(number: int, other: int, size: int) -> int:
        high, low, *_ = philox4x32((other & _MASK32, other >> 32, number, 0), (key & _MASK32, key >> 32))
        return (high << 32 | low) * size >> 64

    def permute(value: int) -> int:
        row, column = divmod(value, columns)
        for number in range(0, 10, 2):
            row = (row + addend(number, column, rows)) % rows
            column = (column + addend(number + 1, row, columns)) % columns
        return row * columns + column

    def walk(position: int) -> int:
        item = permute(position)
        while item >= num_items:
            item = permute(item)
        return item

    return np.array([walk(position) for position in range(start, stop)], dtype=np.int64)


# --- graphs and ids ---------------------------------------------------------------------------------------------------


def coo_to_csc(src: IntArray, dst: IntArray, num_nodes: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (indptr, indices, edge_ids): edges sorted by destination, stable."""
    edge_ids = np.argsort(dst, kind="stable").astype(np.int64)
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(dst, minlength=num_nodes), out=indptr[1:])
    return indptr, np.asarray(src)[edge_ids].astype(np.int64), edge_ids


def has_parallel_edges(indptr: IntArray, indices: IntArray) -> bool:
    """Look for a row with fewer distinct sources than edges."""
    rows = [indices[start:stop].tolist() for start, stop in pairwise(indptr)]
    return any(len(set(row)) < len(row) for row in rows)


def compact(seen: IntArray, neighbors: IntArray) -> tuple[IntArray, IntArray]:
    """Return (ids, indices): `seen`, then new ids by first occurrence, and each neighbour's place among them."""
    place = {int(vertex): i for i, vertex in enumerate(seen)}
    local = [place.setdefault(int(vertex), len(place)) for vertex in neighbors]
    return np.array(list(place), np.int64), np.array(local, np.int64)


def unique_and_inverse(ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct ids by first occurrence, and where each id is among them."""
    return compact(np.empty(0, np.int64), ids)


def hash_owners(ids: IntArray, num_parts: int) -> IntArray:
    """Scale the upper half of the finalizer of SplitMix64 to the number of parts."""
    owners = []
    for i in ids.tolist():
        mixed = i & _MASK64
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK64
        mixed ^= mixed >> 31
        owners.append(((mixed >> 32) * num_parts) >> 32)
    return np.array(owners, dtype=np.int64)


def group_by_owner(ids: IntArray, owners: IntArray, num_parts: int, first: int) -> tuple[IntArray, IntArray, IntArray]:
    """List the ids of part `first`, then those of part 0, of part 1, and so on; where each went; how many in each."""
    listed = owners.tolist()
    parts = [first, *(part for part in range(num_parts) if part != first)]
    order = [i for part in parts for i, owner in enumerate(listed) if owner == part]
    places = [order.index(i) for i in range(len(listed))]
    counts = [listed.count(part) for part in range(num_parts)]
    return ids[np.array(order, dtype=np.int64)], np.array(places, dtype=np.int64), np.array(counts, dtype=np.int64)


def positions_in_parts(owners: IntArray) -> IntArray:
    """Count the vertices before each one that have the same owner."""
    listed = owners.tolist()
    return np.array([listed[:v].count(owner) for v, owner in enumerate(listed)], dtype=np.int64)


def dropout_mask(key: int, ids: IntArray, width: int, threshold: int) -> NDArray[np.bool_]:
    """Keep element j of a row iff word j of the stream of its id is at least the threshold."""
    kept = np.zeros((len(ids), width), dtype=bool)
    for i, identifier in enumerate(ids.tolist()):
        words = stream_words(key, identifier & _MASK64)
        for j in range(width):
            kept[i, j] = next(words) >= threshold
    return kept


def gather_rows(source: NDArray[Any], ids: IntArray, out: NDArray[Any], places: IntArray) -> NDArray[Any]:
    """Copy rows one by one."""
    result = out.copy()
    for row, place in zip(ids, places, strict=True):
        result[place] = source[row]
    return result


def scatter_add_rows(out: NDArray[Any], ids: IntArray, rows: NDArray[Any]) -> NDArray[Any]:
    """Add rows one after the other, in the dtype of `out`."""
    total = out.copy()
    for place, row in zip(ids, rows, strict=True):
        total[place] = total[place] + row
    return total


# --- sampling ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hop:
    """As headrace.ops.Hop, in NumPy."""

    indptr: IntArray
    neighbors: IntArray
    positions: IntArray
    weights: NDArray[np.float32] | None


@dataclass(frozen=True)
class SampledHop:
    """As headrace.ops.SampledHop, in NumPy."""

    indptr: IntArray
    indices: IntArray
    edge_ids: IntArray
    num_dst: int
    num_src: int
    weights: NDArray[np.float32] | None


@dataclass(frozen=True)
class Sampled:
    """As headrace.ops.Sampled, in NumPy."""

    n_id: IntArray
    hops: list[SampledHop]
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]


def pick_uniform(vertex: int, degree: int, fanout: int, key: int, *, replace: bool) -> list[int]:
    """Offsets within the row of `vertex` that a NeighborRule picks."""
    if fanout == -1 or (degree <= fanout and not replace):
        return list(range(degree))
    if degree == 0:
        return []
    words = stream_words(key, vertex)
    if replace:
        return [bounded(words, degree) for _ in range(fanout)]
    picks: list[int] = []
    for last in range(degree - fanout, degree):  # Robert Floyd
        drawn = bounded(words, last + 1)
        picks.append(last if drawn in picks else drawn)
    return picks


def pick_labor(sources: IntArray, fanout: int, key: int, *, exact: bool) -> list[int]:
    """Offsets within the row of in-neighbours `sources` that a LaborRule picks."""
    degree = len(sources)
    if fanout == -1 or degree <= fanout:
        return list(range(degree))
    variates = edge_variates(key, sources)
    if exact:
        return sorted(sorted(range(degree), key=lambda i: (variates[i], i))[:fanout])
    return [i for i in range(degree) if (variates[i] * degree) >> 64 < fanout]


def pick_weighted(vertex: int, row: NDArray[np.float64], fanout: int, key: int, *, replace: bool) -> list[int]:
    """Offsets that a NeighborRule picks by the weights of a row.

    Draw i takes variate i of the destination and falls on the first edge whose running sum of weights exceeds
    u * total. Without replacement draws that fall on an edge already picked do not count, and behind the last draw the
    other edges race: edge i, with the i-th of the variates that follow, arrives at -ln(u) / weight.
    """
    positive = [i for i in range(len(row)) if row[i] > 0]
    if fanout == -1 or (len(row) <= fanout and not replace):
        return positive
    if not positive:
        return []
    variates = stream_variates(key, vertex)
    sums = _running_sums(row)

    def draw() -> int:
        target = unit_interval(next(variates)) * sums[-1]
        return next((i for i in range(len(row)) if sums[i] > target), sums.index(sums[-1]))

    if replace:
        return [draw() for _ in range(fanout)]
    picks: list[int] = []
    degree = len(row)
    if fanout > 0 and 2 * (degree - fanout) >= fanout:
        for _ in range((fanout + 1) // 2 * 8 + 16):
            pick = draw()
            if pick not in picks:
                picks.append(pick)
            if len(picks) == fanout:
                return picks
    units = [unit_interval(next(variates)) for _ in row]
    race = {i: negative_log(units[i]) / float(row[i]) for i in positive if i not in picks}
    return picks + sorted(sorted(race, key=lambda i: (race[i], i))[: fanout - len(picks)])


def pick_labor_weighted(
    sources: IntArray, row: NDArray[np.float64], fanout: int, key: int, *, exact: bool
) -> tuple[list[int], list[np.float32]]:
    """Offsets that a LaborRule picks by the weights of a row, and the Hajek weights of the picked edges."""
    positive = [i for i in range(len(row)) if row[i] > 0]
    total = _running_sums(row)[-1] if len(row) else 0.0
    variates = [unit_interval(variate) for variate in edge_variates(key, sources)]
    take_all = fanout == -1 or len(positive) <= fanout
    if take_all:
        picks = positive
    elif exact:
        picks = sorted(sorted(positive, key=lambda i: (variates[i] / float(row[i]), i))[:fanout])
    else:
        picks = [i for i in positive if variates[i] <= fanout * float(row[i]) / total]
    # weight / probability, where probability = min(1, fanout * weight / total)
    inverse = [float(row[i]) if take_all else max(float(row[i]), total / max(fanout, 1)) for i in picks]
    kept = 0.0
    for value in inverse:
        kept += value
    return picks, [np.float32(value * len(picks) / kept) for value in inverse]


def _running_sums(row: NDArray[np.float64]) -> list[float]:
    sums, total = [], 0.0
    for weight in row:
        total += float(weight)
        sums.append(total)
    return sums


def sample_hop(
    indptr: IntArray,
    indices: IntArray,
    frontier: IntArray,
    rule: Rule,
    key: int,
    *,
    weights: NDArray[Any] | None = None,
) -> Hop:
    """Pick in-edges of every frontier vertex."""
    if not isinstance(rule, NeighborRule | LaborRule):
        from headrace.ops.reference import layer as reference_layer

        return reference_layer.sample_layer(indptr, indices, frontier, rule, key, weights=weights)
    starts, positions = [0], []
    edge_weights: list[np.float32] = []
    for vertex in map(int, frontier):
        start, stop = int(indptr[vertex]), int(indptr[vertex + 1])
        sources = np.asarray(indices[start:stop], np.int64)
        row = None if weights is None else np.asarray(weights[start:stop], np.float64)
        if isinstance(rule, NeighborRule):
            if row is None:
                picks = pick_uniform(vertex, stop - start, rule.fanout, key, replace=rule.replace)
            else:
                picks = pick_weighted(vertex, row, rule.fanout, key, replace=rule.replace)
        elif row is None:
            picks = pick_labor(sources, rule.fanout, key, exact=rule.exact)
        else:
            picks, values = pick_labor_weighted(sources, row, rule.fanout, key, exact=rule.exact)
            edge_weights += values
        positions += [start + i for i in picks]
        starts.append(len(positions))
    chosen = np.array(positions, np.int64)
    has_weights = weights is not None and isinstance(rule, LaborRule)
    return Hop(
        np.array(starts, np.int64),
        np.asarray(indices, np.int64)[chosen],
        chosen,
        np.array(edge_weights, np.float32) if has_weights else None,
    )


def sample_blocks(
    indptr: IntArray,
    indices: IntArray,
    seeds: IntArray,
    rules: Sequence[Rule],
    keys: Sequence[int],
    *,
    expand: str = "all",
    edge_ids: IntArray | None = None,
    weights: NDArray[Any] | None = None,
) -> Sampled:
    """Hop, compact, hop, compact: what headrace.ops.BlockSampler returns."""
    n_id = np.asarray(seeds, np.int64)
    first = 0
    hops: list[SampledHop] = []
    num_nodes, num_edges = [len(n_id)], []
    for rule, key in zip(rules, keys, strict=True):
        hop = sample_hop(indptr, indices, n_id[first:], rule, key, weights=weights)
        seen = len(n_id)
        n_id, local = compact(n_id, hop.neighbors)
        ids = hop.positions if edge_ids is None else np.asarray(edge_ids, np.int64)[hop.positions]
        num_nodes.append(len(n_id) - seen)
        num_edges.append(len(local))
        hops.append(SampledHop(hop.indptr, local, ids, seen - first, len(n_id), hop.weights))
        if expand == "new":
            first = seen
    if expand == "new":
        hops = [_merge(hops)]
    return Sampled(n_id, hops, num_nodes, num_edges)


def _merge(hops: list[SampledHop]) -> SampledHop:
    """Put the rows of all hops, which are about different destinations, behind each other."""
    degrees = np.concatenate([np.diff(hop.indptr) for hop in hops])
    parts = [hop.weights for hop in hops if hop.weights is not None]
    return SampledHop(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]),
        np.concatenate([hop.indices for hop in hops]),
        np.concatenate([hop.edge_ids for hop in hops]),
        len(degrees),
        hops[-1].num_src,
        np.concatenate(parts) if len(parts) == len(hops) else None,
    )
