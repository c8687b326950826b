"""The reference: a page for each group of public names, made of their docstrings."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import pages

import headrace as hr
import headrace.ext
import headrace.lightning
import headrace.ops
import headrace.pyg
import headrace.testing

#: What each page has: its title, a sentence, and names of `headrace`.
GROUPS: dict[str, tuple[str, str, list[str]]] = {
    "plans": (
        "Plans and sources",
        "A plan is a tuple of stages; its verbs return longer plans.",
        ["Plan", "ItemSampler", "ClusterSampler", "GlobalBatch", "Items"],
    ),
    "running": (
        "Loaders",
        "A loader runs a plan on a machine.",
        ["Loader", "Machine", "Place", "keep_freed_memory"],
    ),
    "data": (
        "Graphs and minibatches",
        "The values that plans are about, and that they yield.",
        ["Graph", "MiniBatch", "Block", "gcn_norm", "split_nodes", "split_links"],
    ),
    "storage": (
        "Features, caches, data sets",
        "Where rows come from, and folders that hold a whole data set.",
        [
            "FeatureStore",
            "FeatureSource",
            "DiskFeature",
            "QuantizedFeature",
            "CachedFeature",
            "cached",
            "TieredFeature",
            "plan_tiers",
            "reorder",
            "Rows",
            "convert",
            "save_dataset",
            "open_dataset",
            "Dataset",
        ],
    ),
    "distributed": (
        "Several ranks",
        "Partitions, shards, and training with torch.distributed.",
        [
            "Partition",
            "EdgePartition",
            "ShardedFeature",
            "cooperative",
            "sum_gradients",
            "sum_hook",
            "Comm",
        ],
    ),
    "errors": (
        "Errors and warnings",
        "All but `PlanWarning` are `HeadraceError`. [The index of errors](../errors.md) has their messages.",
        [name for name in hr.__all__ if name.endswith(("Error", "Warning"))],
    ),
    "models": ("Models", "Functions that run models.", ["inference"]),
}

#: The page of verbs: its title, and what it is about.
VERBS = "Verbs", "Methods of every plan. Each returns the plan with one more stage."

#: Modules whose names are public, each with a page of its own.
MODULES = {
    "headrace.ext": "Base classes of stages, samplers, sources, cache policies and passes of your own.",
    "headrace.nn": "Layers on blocks, with PyG's names and parameters.",
    "headrace.sar": "Sequential aggregation and rematerialisation (arXiv 2111.06483).",
    "headrace.scores": "How often the row of each node is read.",
    "headrace.pyg": "Loaders with PyG's names and parameters.",
    "headrace.lightning": "Callbacks for PyTorch Lightning.",
    "headrace.testing": "Ranks in the threads of one process.",
    "headrace.ops": "The operations below all stages: one function each, for any device.",
}

#: Of classes that others are made of, the members that a page has: those that users call.
FOR_USERS = {
    "headrace.pyg": [
        "runner",
        "plan",
        "state_dict",
        "load_state_dict",
        "set_epoch",
        "sample_from_nodes",
        "sample_from_edges",
    ]
}

#: Values that functions return: their classes have no public name, and a page that documents them.
RETURNED = [
    "headrace.pipeline.data.split_links.LinkSplit",
    "headrace.pipeline.data.types.TypeOffsets",
    "headrace.pipeline.partition.report.PartitionReport",
    "headrace.pipeline.plan.plan_tiers.TierPlan",
    "headrace.ops.features.tiers.TierSizes",
    "headrace.pipeline.run.stats.Stats",
    "headrace.pipeline.storage.dataset.dataset.Part",
    "headrace.pipeline.storage.dataset.id_map.IdMap",
    "headrace.pipeline.storage.reordering.Reordered",
]


def write(folder: Path) -> None:
    """Write a page for each group and each module, and their index."""
    folder = folder / "reference"
    listed = []
    for name, (title, sentence, names) in GROUPS.items():
        parts = [_entry(f"headrace.{one}", getattr(hr, one)) for one in names]
        pages.write_text(folder / f"{name}.md", _page(title, sentence, parts))
        listed.append((name, title, sentence))
    pages.write_text(folder / "verbs.md", _page(*VERBS, list(map(_verb, hr.ext.verbs()))))
    listed.insert(1, ("verbs", *VERBS))
    parts = [_entry(name, pydoc.locate(name)) for name in RETURNED]
    pages.write_text(folder / "returned.md", _page("Returned values", "Values that functions return.", parts))
    listed.append(("returned", "Returned values", "Values that functions return."))
    for module, sentence in MODULES.items():
        found = getattr(hr, module.removeprefix("headrace."))
        own = [one for one in found.__all__ if _is_own(module, one)]
        parts = [_entry(f"{module}.{one}", getattr(found, one), FOR_USERS.get(module)) for one in own]
        pages.write_text(folder / f"{module}.md", _page(f"`{module}`", sentence, parts))
        listed.append((module, f"`{module}`", sentence))
    rows = [f"| [{title}]({name}.md) | {sentence} |" for name, title, sentence in listed]
    contents = ["```{toctree}", ":hidden:", "", *(name for name, *_ in listed), "```"]
    text = ["# Reference", "", "| page | about |", "|---|---|", *rows, "", *contents, ""]
    pages.write_text(folder / "index.md", "\n".join(text))


def escape(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Escape what docstrings, which are written to be read as they are, do not mean as markup."""
    del app, name, value, options
    lines[:] = [line.replace("LABOR-*", "LABOR-\\*") for line in lines]
    if what == "property":
        lines[:0] = ["..", ""]  # an empty comment: words before a colon in a first line would be taken for the type


def sign(app: object, what: str, name: str, value: object, *others: object) -> tuple[str, None] | None:
    """Return the parameters of a stage, whose classes are made by a function that takes any."""
    del app, name, others
    if what != "class" or not (isinstance(value, type) and issubclass(value, hr.ext.Stage)):
        return None
    signature = inspect.signature(value)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(bare)), None


def documented() -> set[str]:
    """Return the names of `headrace` that have an entry."""
    return {name for _, _, names in GROUPS.values() for name in names}


def _is_own(module: str, name: str) -> bool:
    """Whether a name belongs on the page of a module: errors and rules are on those of the package."""
    return module != "headrace.ops" or (name not in hr.__all__ and name not in hr.ext.__all__ and name != "TierSizes")


def _page(title: str, sentence: str, parts: list[str]) -> str:
    return "\n".join([f"# {title}", "", sentence, "", *parts])


def _entry(name: str, value: Any, only: list[str] | None = None) -> str:
    """Return the directive for a class, with all members or only some, or for a function."""
    if inspect.isclass(value) and only is not None:
        shown = [one for one in only if hasattr(value, one)]
        return _directive("autoclass", name, [f"   :members: {', '.join(shown)}"] if shown else [])
    if inspect.isclass(value):
        options = [
            "   :members:",
            "   :inherited-members: object, Plan, SourceStage, Exception, Mapping, Module, Callback, tuple",
        ]
        # Verbs have a page of their own, and fields of tuples are in the docstring of their class.
        machinery = {own for base in inspect.getmro(value) for own in vars(base)} - set(dir(value))
        verbs = hr.ext.verbs() if value is hr.Plan else ()
        left_out = [*verbs, *getattr(value, "_fields", ()), *sorted(machinery)]
        if left_out:
            options.append(f"   :exclude-members: {', '.join(left_out)}")
        return _directive("autoclass", name, options)
    if callable(value):
        return _directive("autofunction", name, [])
    return _directive("autodata", name, [])


def _verb(name: str) -> str:
    return _directive("automethod", f"headrace.Plan.{name}", [])


def _directive(kind: str, name: str, options: list[str]) -> str:
    return "\n".join(["```{eval-rst}", f".. {kind}:: {name}", *options, "```", ""])
