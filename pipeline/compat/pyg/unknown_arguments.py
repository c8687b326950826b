"""Arguments that neither PyG's loaders nor torch's DataLoader have: refused with the name or the remedy here."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from headrace.ops.errors import PlanError
from headrace.ops.names import close_name

_ITEMS = ("input_nodes", "edge_label_index", "node_idx")
_OF_LINKS = "headrace.pyg.LinkNeighborLoader has it, which takes links, edge_label_index="

#: Parameters of bases that the loaders here, or Lightning, give themselves.
_NOT_GIVEN = ("dataset", "node_sampler", "link_sampler")

#: Word of plans, DGL or GraphBolt -> the parameters of PyG with its meaning.
_SAME: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fanouts", "fanout", "sizes"), ("num_neighbors",)),
    **dict.fromkeys(("weight", "prob", "prob_name", "edge_weight"), ("weight_attr",)),
    **dict.fromkeys(("items", "inputs", "node_idx", "input_nodes", "seeds", "train_idx", "indices", "nids"), _ITEMS),
    **dict.fromkeys(("ratio", "negative_ratio", "num_negatives"), ("neg_sampling_ratio",)),
    "time": ("time_attr",),
    "strategy": ("temporal_strategy",),
    "workers": ("num_workers",),
    "depth": ("prefetch_factor", "depth"),
    "graph": ("data",),
}

#: Word -> the remedy, where no parameter has its meaning.
_ADVICE: dict[str, str] = {
    **dict.fromkeys(("neg_sampling", "neg_sampling_ratio", "exclude_seed_edges", "edge_label_index"), _OF_LINKS),
    "dtype": "convert batches, transform=lambda data: data.apply(lambda x: x.to(dtype), 'x'), or write a plan with "
    '.fetch_feature(store, node=["x"], dtype=dtype).to_pyg()',
    "device": "move each batch, batch.to(device), or write a plan with .copy_to(device).to_pyg()",
    "rank": "give each rank its items, or a sampler=, as with PyG; ranks of a plan share batches by themselves",
    "world_size": "give each rank its items, or a sampler=, as with PyG; ranks of a plan share batches by themselves",
    "expand": "PyG samples for new nodes alone; a plan has .sample_neighbor(graph, fanouts, expand=...)",
    "importance": "a plan has .sample_layer_neighbor(graph, fanouts, importance=...)",
}


def check_known(loader: type, names: Iterable[str]) -> None:
    """Refuse arguments that no constructor of a loader and of its bases has.

    Raises
    ------
    PlanError
        With the parameter that has the meaning of the first such name, or with what to do.
    """
    known = dict[str, None]()
    for one in loader.__mro__:
        if "__init__" in vars(one) and one is not object:
            known |= dict.fromkeys(_named(one))
    shown = [name for name in known if name not in _NOT_GIVEN]
    for name in names:
        if name not in known:
            same = next((one for one in _SAME.get(name, ()) if one in known), None)
            close = close_name(name, shown)
            advice = f"here it is called {same}=" if same is not None else _ADVICE.get(name)
            advice = advice or (f"did you mean {close}=?" if close else "leave it out")
            raise PlanError(f"{loader.__name__}: expected arguments among {', '.join(shown)}, got {name}=; {advice}")


def _named(of: type) -> list[str]:
    """Return the names of the parameters of a constructor."""
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = list(inspect.signature(vars(of)["__init__"]).parameters.values())[1:]
    return [one.name for one in parameters if one.kind not in variable]
