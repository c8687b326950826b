"""One budget of bytes for the caches of several features."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ops.errors import FeatureError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.storage.cached_feature import CachedFeature, bytes_per_row
from headrace.pipeline.storage.features import FeatureSource, FeatureSources, FeatureStore


def cached(
    store: FeatureStore,
    node: Sequence[str] = (),
    edge: Sequence[str] = (),
    *,
    bytes: int,  # noqa: A002 - the name of a budget everywhere
    policy: str = "sieve",
) -> FeatureStore:
    """Return a store in which some features have caches that share a budget; the others are as they were.

    Each cache holds as many rows as the others, or all that its feature has. They count for themselves. See
    `CachedFeature` for policies, and for the bytes that a row of theirs takes.

    >>> import torch
    >>> import headrace as hr
    >>> store = hr.FeatureStore(node={"x": torch.eye(4), "y": torch.arange(4), "z": torch.zeros(4, 2)})
    >>> hr.cached(store, node=["x", "y"], bytes=350)  # rows of 16 + 73 and 8 + 73 bytes
    FeatureStore(node={'x': CachedFeature(float32[4, 4], policy='sieve', rows=2), 'y': \
CachedFeature(int64[4], policy='sieve', rows=2), 'z': float32[4, 2]}, edge={})

    Parameters
    ----------
    store
        The features.
    node, edge
        Names of those that get caches.
    bytes
        What all caches together take at most, with what finds their rows.
    policy
        Which row makes room for another one; the same for all.

    Raises
    ------
    FeatureError
        If no feature is named, a name is missing, or for a policy that there is not, or that needs more (static).
    """
    budget = whole_number(bytes, "cached: bytes", 0, FeatureError)
    named = [("node", store.node, name) for name in node] + [("edge", store.edge, name) for name in edge]
    if not named:
        raise FeatureError("cached: expected names of features, node=[...] or edge=[...], got none")
    rows: dict[tuple[str, str], int] = {}
    # Those with the fewest rows first: what they do not need is for the others.
    named.sort(key=lambda one: one[1][one[2]].num_rows)
    costs = [bytes_per_row(sources[name], policy) for _, sources, name in named]
    room = budget // sum(costs)
    for i, (domain, sources, name) in enumerate(named):
        rows[domain, name] = min(room, sources[name].num_rows)
        budget -= rows[domain, name] * costs[i]
        if rows[domain, name] < room and costs[i + 1 :]:
            room = budget // sum(costs[i + 1 :])

    def sources_of(domain: str, sources: FeatureSources) -> dict[str, FeatureSource]:
        return {
            name: CachedFeature(source, policy, rows=rows[domain, name]) if (domain, name) in rows else source
            for name, source in sources.items()
        }

    return FeatureStore(node=sources_of("node", store.node), edge=sources_of("edge", store.edge))
