"""What to write in place of attributes and look-ups that a feature store does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.ops.errors import PlanError
from headrace.ops.names import no_attribute_of
from headrace.pipeline.data.feature_names import FeatureName, is_name, listed

if TYPE_CHECKING:
    from headrace.pipeline.storage.features import FeatureStore

_READ = 'store.node["x"].read(ids).rows are rows of node features, store.edge["w"].read(ids).rows those of edges'
_NAMES = "list(store.node) and list(store.edge) are the names"

#: Names of edge features in other libraries that do not begin with "edge".
_OF_EDGES = frozenset({"edata", "efeat", "e_feat"})

_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("read", "read_async", "get_tensor"), _READ),
    **dict.fromkeys(("keys", "items", "values", "get_all_tensor_attrs"), _NAMES),
    "size": 'store.node["x"].shape has it',
    "metadata": 'store.node["x"].shape and .dtype describe a feature',
    "update": 'write store.node["x"].update(ids, rows)',
    "ndata": 'write store.node["x"]',
    "edata": 'write store.edge["w"]',
}


def missing(store: FeatureStore, name: str) -> AttributeError:
    """Return the error for an attribute that a store does not have: where it is, or the nearest name."""
    held = vars(store)

    def instead(word: str) -> str | None:
        domain = next((one for one in ("node", "edge") if word in held.get(one, ())), None)
        return f"write store.{domain}[{word!r}]" if domain is not None else _INSTEAD.get(word)

    return no_attribute_of(store, "a FeatureStore", name, instead)


def by_domain(arguments: Mapping[str, object]) -> str:
    """Return how a call of a store is written whose arguments have the names of features, or hold them by name."""
    named: dict[str, list[str]] = {"node": [], "edge": []}
    for name, value in arguments.items():
        domain = "edge" if name.startswith("edge") or name in _OF_EDGES else "node"
        if isinstance(value, Mapping) and value:
            named[domain] += [f"{own!r}: {own if isinstance(own, str) else '...'}" for own in value]
        else:
            named[domain].append(f"{name!r}: {name}")
    return ", ".join(f"{domain}={{{', '.join(parts)}}}" for domain, parts in named.items() if parts)


def not_by_name(store: FeatureStore, name: Any) -> PlanError:
    """Return the error for a look-up in the store itself, also with GraphBolt's key (domain, type, name)."""
    of_edges = is_name(name) and name in store.edge and name not in store.node
    domain = "edge" if of_edges else "node"
    own = name
    if isinstance(name, tuple) and len(name) == 3 and name[0] in ("node", "edge"):
        domain, own = name[0], name[2] if name[1] is None else name[1:]
    own = own if is_name(own) else "x"
    key = ", ".join(map(repr, own)) if isinstance(own, tuple) else repr(own)
    return PlanError(
        f"FeatureStore: expected a look-up in the features of nodes or of edges, got store[{name!r}]; write "
        f"store.{domain}[{key}]"
    )


def of_fewer_edges(name: FeatureName) -> str:
    """Return what to do with a feature of the edges of a whole graph beside a graph that has some of them."""
    rows = f"the rows of its edges of {listed(name)}"
    if isinstance(name, str):
        rows = f"hr.FeatureStore(edge={{{name!r}: rows[split.edges[part]]}})"
    return (
        f"for split.graphs[part] of hr.split_links, which has some of the edges, pass {rows}: split.edges[part] has "
        "their ids in the whole graph; otherwise pass the graph that the feature belongs to"
    )
