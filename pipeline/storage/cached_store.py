"""One budget of bytes for the caches of several features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.ops.cache.index import POLICIES
from headrace.ops.errors import InputError
from headrace.pipeline.data import CPU, FeatureName, Place, check_kind, is_one_of, whole_number
from headrace.pipeline.storage import gpu_cached_feature
from headrace.pipeline.storage.cached_feature import POLICY, CachedFeature, bytes_per_row
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.users_policy import CachePolicy
from headrace.pipeline.storage.wanted import Feature, Wanted


def cached(
    store: FeatureStore,
    node: Sequence[FeatureName] | None = None,
    edge: Sequence[FeatureName] | None = None,
    *,
    bytes: int,  # noqa: A002 - the name of a budget everywhere
    policy: str | None = None,
    place: Place | str = CPU,
) -> FeatureStore:
    """Return a store with caches on features, which share a budget; features that are not named stay unchanged.

    Each cache holds the same number of rows, or all rows of its feature. Each has its own counts. `CachedFeature`
    describes policies and their bytes per row. For a file, a cache of CPU memory takes the place of the windows of
    batches that a loader reads by itself, unless its policy is look-ahead: without the cache, the loader chooses both.

    >>> import torch
    >>> import headrace as hr
    >>> store = hr.FeatureStore(node={"x": torch.eye(4), "y": torch.arange(4), "z": torch.zeros(4, 2)})
    >>> hr.cached(store, node=["x", "y"], bytes=350)  # rows of 16 + 73 and 8 + 73 bytes
    FeatureStore(node={'x': CachedFeature(float32[4, 4], policy='sieve', rows=2), 'y': \
CachedFeature(int64[4], policy='sieve', rows=2), 'z': float32[4, 2]}, edge={})
    >>> hr.cached(store, node=["x"], bytes=100, place="cuda").node["x"]  # rows of 16 + 24 bytes
    CachedFeature(float32[4, 4], rows=2, place='cuda')

    Parameters
    ----------
    store
        The features.
    node, edge
        Names of the features that get caches; by default all.
    bytes
        The largest size of all caches together, with their indexes.
    policy
        The policy of all caches, by name; by default ``sieve``. Caches on a GPU have a fixed policy of their own. An
        `hr.ext.CachePolicy` is for one cache, `CachedFeature`.
    place
        The place of the caches: CPU memory, or a GPU.

    Raises
    ------
    InputError
        If there is no feature, a name is missing, or no row fits; for an unknown policy, and for one that needs more
        arguments (static).
    """
    check_kind(store, FeatureStore, "cached: expected an hr.FeatureStore", "pass the store first", InputError)
    for kind, names in (("node", node), ("edge", edge)):
        advice = f'pass {kind}=["x"], names that are in the store'
        expected = f"cached: expected {kind} to be a list of feature names"
        check_kind(() if names is None else names, (list, tuple, set, Mapping), expected, advice, InputError)
    budget = whole_number(bytes, "cached: bytes", 0, InputError)
    at = place if isinstance(place, Place) else Place.parse(place)
    if at != CPU and policy is not None:
        raise InputError(f"cached: expected no policy for caches on {at}, which have one of their own, got {policy!r}")
    if policy is not None and not is_one_of(policy, POLICIES):
        own = isinstance(policy, CachePolicy)
        advice = (
            "; give each feature a cache with one of its own, hr.CachedFeature(source, policy, rows=...)" if own else ""
        )
        raise InputError(
            f"cached: expected a policy for all caches, one of {', '.join(POLICIES)}, got "
            f"{type(policy).__name__ if own else repr(policy)}{advice}"
        )
    if node is None and edge is None:
        node, edge = list(store.node), list(store.edge)
    wanted = Wanted(store, node=tuple(node or ()), edge=tuple(edge or ()))
    if not wanted:
        raise InputError("cached: expected names of features, node=[...] or edge=[...], got none")
    sources = wanted.sources()
    made = with_caches(store, wanted.features, budget=budget, policy=policy, at=at)
    if made is store and any(source.num_rows for source in sources):
        least = sum(_cost_of(source, policy, at) for source in sources)
        raise InputError(
            f"cached: expected room for at least one row of each feature, got bytes={budget}; give bytes={least} or "
            "more, with what finds the rows, or name fewer features"
        )
    return made


def with_caches(
    store: FeatureStore, features: Iterable[Feature], *, budget: int, policy: str | None, at: Place
) -> FeatureStore:
    """Return what `cached` does; features stay as they are where no row has room, and so does the store if none has."""
    wanted = Wanted(store)
    # Those with the fewest rows first: what they do not need is for the others.
    sources = sorted(
        ((feature, wanted.source(feature)) for feature in dict.fromkeys(features)), key=lambda one: one[1].num_rows
    )
    costs = [_cost_of(source, policy, at) for _, source in sources]
    room = budget // max(sum(costs), 1)
    caches: dict[Feature, FeatureSource] = {}
    for i, (feature, source) in enumerate(sources):
        rows = min(room, source.num_rows)
        budget -= rows * costs[i]
        if rows < room and costs[i + 1 :]:
            room = budget // sum(costs[i + 1 :])
        if rows:
            caches[feature] = CachedFeature(source, policy, rows=rows, place=at)
    if not caches:
        return store
    return FeatureStore(
        node={name: caches.get(("node", name), store.node.in_contract(name)) for name in store.node},
        edge={name: caches.get(("edge", name), store.edge.in_contract(name)) for name in store.edge},
    )


def _cost_of(source: FeatureSource, policy: str | None, at: Place) -> int:
    """Return the bytes that a row takes in a cache."""
    return bytes_per_row(source, policy or POLICY) if at == CPU else gpu_cached_feature.bytes_per_row(source)
