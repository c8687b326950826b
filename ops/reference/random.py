"""Words and variates of one stream: the contract of `headrace.ops.random.rng`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.ops.random.dependency import BlendedKey
from headrace.ops.reference.real_variates import normal_quantile, normal_variate, turn, unit_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


MASK32 = (1 << 32) - 1
MASK64 = (1 << 64) - 1


def philox4x32(counter: Sequence[int], key: Sequence[int], rounds: int = 10) -> tuple[int, int, int, int]:
    """Philox4x32 of a counter of four and a key of two 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (product1 >> 32) ^ c1 ^ k0, product1 & MASK32, (product0 >> 32) ^ c3 ^ k1, product0 & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def stream_key(seed: int, epoch: int, batch: int, layer: int, purpose: int) -> int:
    """Step 1 of the contract in headrace.ops.random.rng."""
    counter = (epoch, batch & MASK32, batch >> 32, layer | purpose << 16)
    words = philox4x32(counter, (seed & MASK32, seed >> 32))
    return words[0] | words[1] << 32


def slot_key(key: int | BlendedKey, slot: int) -> Any:
    """Return the key under which the nodes of one slot have their streams."""
    if isinstance(key, BlendedKey):
        return BlendedKey(slot_key(key.key, slot), slot_key(key.next_key, slot), key.step, key.num_steps)
    slot %= 1 << 64
    words = philox4x32((slot & MASK32, slot >> 32, 0, MASK32), (key & MASK32, key >> 32))
    return words[0] | words[1] << 32


def stream_words(key: int, identifier: int) -> Iterator[int]:
    """Step 2 of the contract: the 32-bit words of one id's stream, without end."""
    block = 0
    while True:
        yield from philox4x32((identifier & MASK32, identifier >> 32, block, 0), (key & MASK32, key >> 32))
        block += 1


def stream_variates(key: int, identifier: int) -> Iterator[int]:
    """64-bit variates of one id: word 2 i of its stream is the upper half of variate i, word 2 i + 1 the lower one."""
    words = stream_words(key, identifier)
    while True:
        yield next(words) << 32 | next(words)


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


def labor_variate(key: int | BlendedKey, node: int, number: int = 0) -> int:
    """r_t of LABOR as a 64-bit integer; of an edge behind `number` others from t to the same node its own."""
    if isinstance(key, BlendedKey):
        variates = [labor_variate(one, node, number) for one in (key.key, key.next_key)]
        if key.step == 0:
            return variates[0]
        (cosine, sine), (one, other) = turn(key.step / key.num_steps), map(unit_interval, variates)
        return normal_variate(cosine * normal_quantile(one) + sine * normal_quantile(other))
    high, low, *_ = philox4x32((node & MASK32, node >> 32, number, 0), (key & MASK32, key >> 32), rounds=7)
    return high << 32 | low


def edge_variates(key: int | BlendedKey, sources: IntArray) -> list[int]:
    """Return the variate of each edge of the row of in-neighbours `sources`."""
    listed = [int(source) for source in sources]
    return [labor_variate(key, t, listed[:i].count(t)) for i, t in enumerate(listed)]
