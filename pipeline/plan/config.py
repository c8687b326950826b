"""Plans as JSON: verbs and parameters, with graphs, stores and other data by name.

A config holds no data and no code. A value that JSON lacks is an object with one key:

============================  =============================================================
``{"$graph": name}``          a graph, given again by this name
``{"$store": name}``          a feature store
``{"$items": text}``          the items of the source; the text says how many, which those given again must be
``{"$object": name}``         any other value: times, costs, a partition, a function
``{"$map": [[key, value]]}``  a dictionary whose keys are not all text, such as edge types
``{"$float": "inf"}``         a number that is not finite
``{"$dtype": "float32"}``     a dtype of torch
============================  =============================================================

Of graphs of data sets with the users' own ids it notes the `Dataset.numbering`, by the names of the graphs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import numpy as np
import torch

from headrace.ops.errors import PlanError
from headrace.ops.names import close_name
from headrace.pipeline.data import GraphView
from headrace.pipeline.data.checks import check_depth
from headrace.pipeline.data.graph_machinery import numbering_of
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.plan.arguments import check_arguments
from headrace.pipeline.plan.fanouts import counts_by_name
from headrace.pipeline.plan.plan import Plan, verbs
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.traits import same
from headrace.pipeline.storage.features import FeatureStore

#: The version of the form of configs.
VERSION = 1

#: Parameters of samplers that have numbers for each relation of their graph.
BY_RELATION = ("fanouts", "layer_sizes")


def config_of(plan: Plan, *, graphs: Any = None, stores: Any = None) -> dict[str, Any]:
    """Return a plan as a dictionary; see `Plan.config`."""
    writer = _Writer(
        {
            "graph": _named(graphs, "graph", GraphView, "config"),
            "store": _named(stores, "store", FeatureStore, "config"),
            "object": {},
        }
    )
    source, *rest = plan.stages
    if not isinstance(source, SourceStage):
        raise PlanError(f"config: expected a plan that begins with a source, got {source.name}; begin with ItemSampler")
    stages = [{"source": source.name, **writer.parameters(source)}]
    stages += [{"verb": _verb_of(stage), **writer.parameters(stage)} for stage in rest]
    numberings = {name: one for name, graph in writer.graphs().items() if (one := numbering_of(graph)) is not None}
    return {"version": VERSION, **({"numbering": numberings} if numberings else {}), "stages": stages}


def plan_of(config: Any, *, graphs: Any = None, stores: Any = None, items: Any = None, objects: Any = None) -> Plan:
    """Return the plan of a dictionary; see `Plan.from_config`."""
    check_depth(config, "from_config", PlanError)
    if not isinstance(config, Mapping) or not isinstance(config.get("stages"), list) or not config["stages"]:
        raise PlanError(
            f"from_config: expected the dictionary that plan.config() returns, got {type(config).__name__}"
            f"{' without stages' if isinstance(config, Mapping) else ''}; read a file with json.load"
        )
    if config.get("version") != VERSION:
        raise PlanError(
            f"from_config: expected version {VERSION} of configs, got {config.get('version')!r}; write it again with "
            "plan.config()"
        )
    given = {
        "graph": _named(graphs, "graph", GraphView, "from_config"),
        "store": _named(stores, "store", FeatureStore, "from_config"),
        "object": _named(objects, "object", (), "from_config"),
    }
    _check_numbering(config.get("numbering", {}), given["graph"])
    reader = _Reader(given, items)
    source, *rest = (reader.stage(entry, number) for number, entry in enumerate(config["stages"]))
    source_class = _source_class(source.name)
    check_arguments(source.name, source_class.__init__, (), source.parameters, complete=True)
    made = source_class(**source.parameters)
    if items is not None and not reader.read_items:
        raise PlanError("from_config: expected no items=, as those of the config are numbers in it; leave out items=")
    _check_items(made, reader.text_of_items)
    plan: Plan = made
    for one in rest:
        if one.name not in verbs():
            raise PlanError(
                f"from_config: expected the name of a verb, got {one.name!r}{_advice(one.name, verbs())}; import the "
                "module that registers a verb of your own first"
            )
        plan = getattr(plan, one.name)(**one.parameters)
    return plan


def _check_numbering(noted: Any, graphs: Mapping[str, GraphView]) -> None:
    """Compare the numbering of nodes in graphs of data sets with what the config notes of it."""
    for name, numbering in noted.items() if isinstance(noted, Mapping) else ():
        if name in graphs and numbering_of(graphs[name]) not in (None, numbering):
            raise PlanError(
                f"from_config: expected the {name} of the data set of which the config was written, got one whose "
                "nodes are numbered otherwise, as after it was converted again; write the config of a plan over this"
            )


def _check_items(source: SourceStage, noted: Any) -> None:
    """Compare the items of a source with what the config notes of them: how many, of what kind, with labels or not.

    Texts that a reader has written are not compared, nor are numbers where each rank brings items of its own.
    """
    written = re.compile(r"([\d,]+) (.+)")
    of_config = written.fullmatch(noted) if isinstance(noted, str) else None
    for items in source.as_written().values():
        found = written.fullmatch(str(items)) if isinstance(items, ItemSet) else None
        if of_config is None or found is None or not re.match(r"items|pairs", of_config[2]):
            continue
        parts = slice(1, 2) if getattr(source, "items_per_rank", False) else slice(2)
        if of_config.groups()[parts] != found.groups()[parts]:
            raise PlanError(
                f"from_config: expected the items of which the config was written, {noted}, got {found[0]}; pass "
                "these, or write a config of the plan over the new items"
            )


def _named(given: Any, kind: str, classes: Any, stage: str) -> dict[str, Any]:
    """Return values by name: a mapping, or one value, whose name is that of its kind; `stage` is for errors."""
    if given is None:
        return {}
    if classes and isinstance(given, classes):
        return {kind: given}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise PlanError(
            f'{stage}: expected {kind}s by name, {{"{kind}": ...}}, got {type(given).__name__}; give a dictionary'
        )
    odd = [value for value in given.values() if classes and not isinstance(value, classes)]
    if odd:
        raise PlanError(
            f"{stage}: expected {kind}s= to hold {kind}s alone, got {type(odd[0]).__name__}; see plan.config()"
        )
    return dict(given)


def _verb_of(stage: Stage) -> str:
    if stage.lowered or stage.name not in verbs():
        raise PlanError(
            f"config: expected stages with a verb, got {type(stage).__name__}; register its class, "
            f'@hr.ext.verb("{stage.name if hasattr(type(stage), "name") else "name"}"), and chain the verb'
        )
    return stage.name


def _source_class(name: Any) -> type[SourceStage]:
    """Return the class of a source: of headrace, or a user's own that has been defined."""
    found: dict[str, type[SourceStage]] = {}
    found |= {one.name: one for one in _subclasses(SourceStage) if "name" in vars(one)}
    if not isinstance(name, str) or name not in found:
        raise PlanError(
            f"from_config: expected the name of a source, got {name!r}{_advice(name, found)}; import the module of a "
            "source of your own first"
        )
    return found[name]


def _subclasses(of: Any) -> list[Any]:
    direct: list[Any] = of.__subclasses__()
    return [one for below in direct for one in (below, *_subclasses(below))]


def _advice(name: Any, known: Any) -> str:
    close = close_name(name, known) if isinstance(name, str) else None
    return f" (did you mean {close!r}?)" if close else f"; there are {', '.join(sorted(known))}"


class _Writer:
    """Replaces values of parameters by what JSON has, and names the rest."""

    def __init__(self, names: dict[str, dict[str, Any]]) -> None:
        self._names = names

    def parameters(self, stage: Stage) -> dict[str, Any]:
        """Return the parameters of a stage that differ from their defaults."""
        written = {}
        for name, value in stage.as_written().items():
            default = next((one.default for one in fields(stage) if one.name == name), MISSING)
            if default is MISSING or not same(value, default):
                by_name = counts_by_name(value, getattr(stage, "graph", None)) if name in BY_RELATION else value
                written[name] = self.value(by_name, name)
        return written

    def graphs(self) -> dict[str, GraphView]:
        """Return the graphs by the names that they have been given."""
        return self._names["graph"]

    def value(self, value: Any, name: str) -> Any:
        """Return a value of the parameter of a name."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        if isinstance(value, tuple | list):
            return [self.value(one, name) for one in value]
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: self.value(one, name) for key, one in value.items()}
            return {"$map": [[self.value(key, name), self.value(one, name)] for key, one in value.items()]}
        if isinstance(value, ItemSet):
            counted = isinstance(value.ids, range) and value.ids == range(len(value)) and value.labels is None
            return len(value) if counted else {"$items": str(value)}
        if isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        if isinstance(value, GraphView):
            return {"$graph": self._name("graph", value, "graph")}
        if isinstance(value, FeatureStore):
            return {"$store": self._name("store", value, "store")}
        own = getattr(value, "__name__", name) if callable(value) else name
        return {"$object": self._name("object", value, own if own.isidentifier() else name)}

    def _name(self, kind: str, value: Any, name: str) -> str:
        """Return the name of a value, the same for the same value."""
        names = self._names[kind]
        known = next((own for own, one in names.items() if one is value), None)
        if known is not None:
            return known
        numbered = (name if number == 1 else f"{name}{number}" for number in range(1, len(names) + 2))
        free = next(one for one in numbered if one not in names)
        names[free] = value
        return free


class _Entry(NamedTuple):
    """A stage of a config.

    Parameters
    ----------
    name
        That of the source or the verb.
    parameters
        By name.
    """

    name: Any
    parameters: dict[str, Any]


class _Reader:
    """Replaces what a config names by what is given."""

    def __init__(self, given: dict[str, dict[str, Any]], items: Any) -> None:
        self._given = given
        self._items = items
        self.read_items = False
        self.text_of_items: Any = None

    def stage(self, entry: Any, number: int) -> _Entry:
        """Return a stage; the first one is the source."""
        kind = "source" if number == 0 else "verb"
        if not isinstance(entry, Mapping) or kind not in entry:
            raise PlanError(f"from_config: expected stage {number} to be a dictionary with {kind!r}, got {entry!r}")
        return _Entry(entry[kind], {str(name): self.value(one) for name, one in entry.items() if name != kind})

    def value(self, value: Any) -> Any:
        """Return the value of a parameter."""
        if isinstance(value, list):  # names of types are tuples
            return tuple(self.value(one) for one in value)
        if not isinstance(value, Mapping):
            return value
        tags = [key for key in value if isinstance(key, str) and key.startswith("$")]
        if not tags:
            return {key: self.value(one) for key, one in value.items()}
        tag, content = tags[0], value[tags[0]]
        if len(value) == 1 and tag in ("$graph", "$store", "$object"):
            return self._of_name(tag[1:], content)
        if len(value) == 1 and tag == "$items":
            return self._given_items(content)
        if len(value) == 1 and tag == "$float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if len(value) == 1 and tag == "$dtype" and isinstance(getattr(torch, str(content), None), torch.dtype):
            return getattr(torch, content)
        if len(value) == 1 and tag == "$map" and isinstance(content, list):
            pairs = [self.value(pair) for pair in content]
            if all(isinstance(pair, tuple) and len(pair) == 2 and _can_be_key(pair[0]) for pair in pairs):
                return dict(pairs)
        raise PlanError(f"from_config: expected a value that plan.config() writes, got {dict(value)!r}")

    def _of_name(self, kind: str, name: Any) -> Any:
        given = self._given[kind]
        if not isinstance(name, str) or name not in given:
            had = ", ".join(map(repr, given)) or "none"
            raise PlanError(
                f"from_config: expected the {kind} that the config calls {name!r}, got {had}; pass "
                f'{kind}s={{"{name}": ...}}'
            )
        return given[name]

    def _given_items(self, text: Any) -> Any:
        if self._items is None:
            raise PlanError(f"from_config: expected the items of the source ({text}), got none; pass items=...")
        self.read_items, self.text_of_items = True, text
        return self._items


def _can_be_key(key: Any) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key))
