"""Uniform numbers of ids, for samplers that are written in Python."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.ops._arrays import is_int
from headrace.ops.errors import InputError
from headrace.ops.random.rng import OWN, stream_key

_MASK = (1 << 32) - 1
_ROUNDS = 10
_FACTORS, _WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_MOST_DRAWS = 1 << 33

Words = tuple[Any, Any]


def uniform(
    seed: int, epoch: int, index: int, ids: Tensor, *, hop: int = 0, tree: Tensor | None = None, draw: Tensor | int = 0
) -> Tensor:
    """Return a number in (0, 1) for each id, which depends on the arguments alone: for samplers of your own.

    It is what headrace's own samplers draw by: Philox4x32, keyed by a batch, a hop and an id. So the same edges are
    found in any order, by any number of threads, on any rank that has the node, and after resuming. Numbers of other
    keys, hops, trees, ids or draws are independent of each other, and of all that stages of headrace draw.

    >>> import torch
    >>> from headrace import ext
    >>> first = ext.uniform(7, 0, 3, torch.tensor([5, 8]))
    >>> bool(first[1] == ext.uniform(7, 0, 3, torch.tensor([8]))[0])
    True

    Parameters
    ----------
    seed : int
        ``settings.seed``, the seed of the plan's source.
    epoch, index : int
        Those of the batch.
    ids : torch.Tensor
        int64[n], on any device: global ids of nodes, ``batch.n_id`` of the destinations, or ids of edges. Never
        positions in a batch, which differ between ranks.
    hop : int
        The hop, 0 next to the seeds.
    tree : torch.Tensor, optional
        int64[n], for seeds with trees of their own: ``batch.slot``, or ``batch.seed_slot[batch.slot]`` where a batch
        has `seed_slot`. A node draws anew in each tree.
    draw : torch.Tensor or int
        The number of the draw of an id, int64[n] or one for all: a node that draws for each of its edges numbers these,
        from 0 on.

    Returns
    -------
    torch.Tensor
        float64[n]: the variate `draw` of the stream of each id, as `headrace.ops.random.rng` defines them.

    Raises
    ------
    InputError
        For ids, trees or draws that are no int64 of the same length, draws below 0, or keys out of range.
    """
    _check(ids, "ids")
    key: Words = _halves(stream_key(seed, epoch, index, hop, OWN))
    if tree is not None:
        _check(tree, "tree", ids)
        key = _philox((*_halves(_array(tree)), 0, _MASK), key)[:2]
    if isinstance(draw, Tensor):
        _check(draw, "draw", ids)
        least, most = (int(one) for one in draw.aminmax()) if draw.numel() else (0, 0)
    elif is_int(draw):
        least = most = int(draw)
    else:
        raise InputError(f"uniform: expected draw to be an integer or int64[{len(ids)}], got {draw!r}")
    if least < 0 or most >= _MOST_DRAWS:
        raise InputError(f"uniform: expected draw to count from 0, below 2**33, got {least} to {most}")
    number = _array(draw) if isinstance(draw, Tensor) else least
    words = _philox((*_halves(_array(ids)), number // 2, 0), key)
    # The first or the last two of a block, by masks of no or all bits.
    first, last = number % 2 - 1, -(number % 2)
    high, low = (words[lane] & first | words[lane + 2] & last for lane in (0, 1))
    # The upper 52 of 64 bits as an odd multiple of 2**-53, as for all real variates.
    bits = torch.as_tensor(high << 20 | low >> 12 | 0x3FF << 52, device=ids.device)
    return (bits.view(torch.float64) - 1.0) + 2.0**-53


def _array(values: Tensor) -> Any:
    """Return an array to compute with: on a CPU torch's sums of a minibatch take a multiple of the time of NumPy's."""
    return values.numpy() if values.is_cpu else values


def _halves(value: Any) -> Words:
    return value & _MASK, (value >> 32) & _MASK


def _philox(counter: tuple[Any, ...], key: Words) -> tuple[Any, Any, Any, Any]:
    """Return the words of Philox4x32 of counters; products of 32 bits wrap in 64, whose sign means nothing here."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _FACTORS[0], c2 * _FACTORS[1]
        c0, c2 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, ((p0 >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = p1 & _MASK, p0 & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def _check(values: object, name: str, like: Tensor | None = None) -> None:
    is_fitting = isinstance(values, Tensor) and values.dtype == torch.int64 and values.ndim == 1
    if not is_fitting or (like is not None and isinstance(values, Tensor) and values.shape != like.shape):
        got = str(values.dtype) + str(list(values.shape)) if isinstance(values, Tensor) else type(values).__name__
        wanted = f"int64[{'n' if like is None else len(like)}]"
        raise InputError(
            f"uniform: expected {name} to be {wanted}, got {got.removeprefix('torch.')}; pass ids.to(torch.int64)"
        )
