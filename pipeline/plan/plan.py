"""Plans: tuples of stages, source first. Chaining returns a new plan and changes nothing.

>>> import headrace as hr
>>> plan = hr.ItemSampler(1_000, batch_size=64)
>>> longer = plan.prefetch(workers=1)
>>> [stage.name for stage in longer.stages]
['item_sampler', 'prefetch']

The decorator :func:`~headrace.pipeline.plan.plan.verb` makes a stage a method of every plan.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from headrace.ops.errors import PlanError
from headrace.ops.names import load, no_attribute
from headrace.pipeline.data.checks import as_list
from headrace.pipeline.plan.arguments import check_arguments
from headrace.pipeline.plan.foreign_words import instead_on_plan
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import render

if TYPE_CHECKING:
    # Stages register verbs, what runs plans registers `loader`; a file that is written from them has their types.
    from headrace.pipeline.plan.verb_signatures import ConvertedVerbs
    from headrace.pipeline.plan.verb_signatures import Verbs as _Verbs
else:
    _Verbs = object

#: The module that imports all public names, and with them the wings that add methods to plans.
_PUBLIC = "headrace.pipeline.public"

P = ParamSpec("P")
T = TypeVar("T")


class Plan(_Verbs):
    """A tuple of stages, source first, with a method for each verb. Plans with equal stages are equal.

    A source is a plan as well, the shortest one.

    Parameters
    ----------
    stages
        One or more.

    Raises
    ------
    PlanError
        If there is none.
    """

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._stages = tuple(as_list(stages, "Plan: stages", "stages, source first", PlanError))
        odd = [stage for stage in self._stages if not isinstance(stage, Stage)]
        if odd:
            raise PlanError(
                f"Plan: expected stages alone, got {type(odd[0]).__name__}; chain verbs, such as .prefetch()"
            )
        if not self._stages:
            raise PlanError("Plan: expected at least one stage, got none")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, source first."""
        return self._stages

    @property
    def names(self) -> tuple[str, ...]:
        """A unique name for each stage: the stage's own name, with a number from the second use on."""
        return names_of(self.stages)

    def then(self, stage: Stage) -> Plan:
        """Return the plan with one more stage. A verb creates the stage and calls this method."""
        return Plan((*self.stages, stage))

    def pipe(self, function: Callable[Concatenate[Plan, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function(plan, ...)``, so that functions of your own keep the left-to-right reading order."""
        if not callable(function):
            raise PlanError(f"pipe: expected a function that takes a plan, got {type(function).__name__}")
        return function(self, *args, **kwargs)

    def config(self, *, graphs: Any = None, stores: Any = None) -> dict[str, Any]:
        """Return the plan as a dictionary that JSON can hold: its verbs, and the parameters that are not defaults.

        Data have names in it: ``"graph"``, ``"graph2"``, ``"store"`` in the order of the plan, the items of the source
        ``"$items"``, and other values (times, a partition, a function) the name of their parameter or their own.
        Fanouts that differ by edge type have the names of the types.

        Parameters
        ----------
        graphs
            Your own names of graphs, ``{"papers": graph}``.
        stores
            Your own names of feature stores, ``{"features": store}``.

        Raises
        ------
        PlanError
            For a stage that has no verb.

        Examples
        --------
        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
        >>> plan = hr.ItemSampler(3, batch_size=2, seed=7).sample_neighbor(graph, fanouts=[2])
        >>> config = plan.config()
        >>> config["stages"][1]
        {'verb': 'sample_neighbor', 'graph': {'$graph': 'graph'}, 'fanouts': [2]}
        >>> hr.Plan.from_config(config, graphs=graph) == plan
        True
        """
        from headrace.pipeline.plan.config import config_of

        return config_of(self, graphs=graphs, stores=stores)

    @staticmethod
    def from_config(
        config: Any, *, graphs: Any = None, stores: Any = None, items: Any = None, objects: Any = None
    ) -> Plan:
        """Return the plan of a dictionary that `config` returned, over data that are given again.

        With equal data it is the same plan: it has the same batches, and continues the same checkpoints.

        Parameters
        ----------
        config
            The dictionary; nothing in it can execute code.
        graphs, stores
            The graphs and stores by their names in the config; or the graph itself, named ``"graph"``.
        items
            The items of ``ItemSampler``, as many as in the config and of the same kind; a number of nodes is in the
            config instead.
        objects
            Other values by name: times, costs, a partition, functions.

        Raises
        ------
        PlanError
            For a config of another version or form, a verb that does not exist, or data that are missing; for other
            items than the config notes: their number, their kind, whether they have labels.
            For a parameter that its verb does not have.
        """
        from headrace.pipeline.plan.config import plan_of

        return plan_of(config, graphs=graphs, stores=stores, items=items, objects=objects)

    # A plan describes; what is iterated is the loader. Where these are not defined Python says "not iterable" alone.
    def __iter__(self) -> NoReturn:
        raise PlanError(f"expected a loader to iterate over, got a plan ({self._end}); call .loader() on it")

    def __next__(self) -> NoReturn:
        raise PlanError(
            f"expected an iterator, got a plan ({self._end}); call next(iter(plan.loader())) for its first batch"
        )

    def __len__(self) -> int:
        raise PlanError(
            f"expected a loader, got a plan ({self._end}), whose number of batches depends on how it is run; "
            "call len(plan.loader())"
        )

    def __getitem__(self, index: object) -> NoReturn:
        raise PlanError(
            f"expected a loader, got plan[{index!r}] of a plan ({self._end}); its stages are in plan.stages, and the "
            "first batch is next(iter(plan.loader()))"
        )

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.stages == other.stages

    def __hash__(self) -> int:
        return hash(self.stages)

    def __repr__(self) -> str:
        return render(self.stages)

    @property
    def _end(self) -> str:
        return f"ends in {self.stages[-1].name}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if _PUBLIC not in sys.modules and not name.startswith("_"):
                # A program that has unpickled a plan, and asked `headrace` for no name: `loader` is of a wing above.
                load(_PUBLIC)
                return getattr(self, name)
            # What is no method, attribute or verb; of a source its arguments are named, not what passes read.
            kind = "a plan" if type(self) is Plan else type(self).__name__
            raise no_attribute(kind, name, self._own_names, instead_on_plan)

        def _own_names(self) -> list[str]:
            return [*filter(_is_public, dir(Plan)), *inspect.signature(type(self)).parameters]


def _is_public(name: str) -> bool:
    return not name.startswith("_")


if TYPE_CHECKING:

    class Converted(ConvertedVerbs, Plan):
        """The type of plans that end in ``to_pyg()`` or ``to_dgl()``, possibly followed by a prefetch or a copy."""


def names_of(stages: Iterable[Stage]) -> tuple[str, ...]:
    """Return a unique name for each stage: its own name, with a number from the second use on."""
    seen: dict[str, int] = {}
    names = []
    for stage in stages:
        count = seen[stage.name] = seen.get(stage.name, 0) + 1
        names.append(stage.name if count == 1 else f"{stage.name}#{count}")
    return tuple(names)


S = TypeVar("S", bound="type[Stage]")


def verb(name: str) -> Callable[[S], S]:
    """Register a stage class under a method name of every plan.

    ``plan.name(*args, **kwargs)`` then returns the plan with ``StageClass(*args, **kwargs)`` appended.

    Raises
    ------
    PlanError
        If the name is taken.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise PlanError(f'verb: expected the name of a method, got {name!r}; write @hr.ext.verb("name")')

    def register(stage: S) -> S:
        if not (isinstance(stage, type) and issubclass(stage, Stage)):
            kind = stage.__name__ if isinstance(stage, type) else type(stage).__name__
            raise PlanError(
                f"verb: expected a class of stages to register as {name!r}, such as a subclass of "
                f"hr.ext.MapStage, got {kind}; write @hr.ext.verb({name!r}) above it"
            )
        _check_not_of_sources(name, stage)
        there = inspect.getattr_static(Plan, name, None)
        if there is not None:
            raise PlanError(f"cannot register {stage.__name__}: plans already have a method or attribute {name!r}")

        def method(self: Plan, /, *args: Any, **kwargs: Any) -> Plan:
            check_arguments(name, stage.__init__, args, kwargs, complete=True)
            return self.then(stage(*args, **kwargs))

        method.__name__ = name
        method.__qualname__ = f"Plan.{name}"
        method.__doc__ = stage.__doc__
        method.__wrapped__ = stage  # type: ignore[attr-defined]
        method.__signature__ = _signature(stage)  # type: ignore[attr-defined]
        setattr(Plan, name, method)
        stage.name = name
        return stage

    return register


def _check_not_of_sources(name: str, stage: type[Stage]) -> None:
    """Refuse the name of an attribute of sources for a user's verb: sources are plans, and would not have the verb."""
    if stage.__module__.partition(".")[0] == "headrace":
        return
    kinds = Plan.__subclasses__()
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.__module__.partition(".")[0] == "headrace" and name in {**vars(kind), **inspect.get_annotations(kind)}:
            raise PlanError(
                f"cannot register {stage.__name__}: {kind.__name__}, which is a plan, has an attribute {name!r}; name "
                "the verb otherwise"
            )


def verbs() -> tuple[str, ...]:
    """Return the registered method names, sorted."""
    added = {name for name, method in vars(Plan).items() if isinstance(getattr(method, "__wrapped__", None), type)}
    return tuple(sorted(added))


def _signature(stage: type[Stage]) -> inspect.Signature:
    """Return the parameters of a stage as those of a method that returns a plan, for help() and completion."""
    made = inspect.signature(stage.__init__)
    return made.replace(return_annotation="Plan")
