"""Errors of calls with arguments that a stage or a loader does not have, in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from typing import Any

from headrace.ops.errors import PlanError
from headrace.ops.names import close_name
from headrace.pipeline.plan.foreign_words import ADVICE, MEANING, SAME

_NAMED = inspect.Parameter.KEYWORD_ONLY
_ANY_NAME = inspect.Parameter.VAR_KEYWORD
_ANY_NUMBER = inspect.Parameter.VAR_POSITIONAL


def check_arguments(
    what: str, function: Callable[..., Any], args: tuple[Any, ...], named: Iterable[str], *, complete: bool
) -> None:
    """Refuse a call whose arguments a function does not have, or that lacks one.

    Parameters
    ----------
    what
        What the user called, for the message.
    function
        What is to be called, with ``self`` in front.
    args
        Arguments by position, without ``self``.
    named
        Names of the others.
    complete
        Whether all that have no default must be there.

    Raises
    ------
    PlanError
        Saying what the function takes, what came, and the name here of what peers call otherwise.
    """
    parameters = _parameters(function)
    kinds = {parameter.kind for parameter in parameters.values()}
    by_position = [name for name, one in parameters.items() if one.kind not in (_NAMED, _ANY_NAME, _ANY_NUMBER)]
    names = [name for name, one in parameters.items() if one.kind not in (_ANY_NAME, _ANY_NUMBER)]
    named = list(named)
    for name in named:
        if name not in parameters and _ANY_NAME not in kinds:
            raise unknown_argument(what, name, names)
    if len(args) > len(by_position) and _ANY_NUMBER not in kinds:
        rest = [f"{name}=" for name in names if name not in by_position]
        raise PlanError(
            f"{what}: expected at most {len(by_position)} without a name ({', '.join(by_position)}), got "
            f"{len(args)}; name the others{': ' if rest else ''}{', '.join(rest)}"
        )
    given = {*named, *by_position[: len(args)]}
    missing = [name for name in names if name not in given and parameters[name].default is inspect.Parameter.empty]
    if complete and missing:
        came = ", ".join(name for name in names if name in given)
        raise PlanError(f"{what}: expected {', '.join(missing)}, got {came or 'nothing'}; pass {missing[0]}=...")


def unknown_argument(what: str, name: str, known: Iterable[str]) -> PlanError:
    """Return the error for an argument that does not exist, with the argument that was probably meant."""
    known = list(known)
    same = next((one for one in SAME.get(name, ()) if one in known), None)
    close = close_name(name, known)
    if same is not None:
        advice = f"here it is called {same}="
        if name in MEANING:
            advice += f" ({MEANING[name]})"
    elif name in ADVICE:
        advice = ADVICE[name]
    elif close:
        advice = f"did you mean {close}=?"
    else:
        advice = "leave it out"
    return PlanError(f"{what}: expected arguments among {', '.join(known)}, got {name}=; {advice}")


def check_parameters_are_fields(kind: type, *, given: bool) -> None:
    """Refuse a class of a user's stage with parameters that are no fields: stages are compared, and resumed, by these.

    Parameters
    ----------
    kind
        The class, a dataclass or a subclass of one.
    given
        Whether it is called with arguments.

    Raises
    ------
    PlanError
        Naming the parameters, and what to write.
    """
    if kind.__module__.partition(".")[0] == "headrace":
        return
    known = {field.name for field in fields(kind)}
    any_name = (_ANY_NAME, _ANY_NUMBER)
    own = [name for name, one in _parameters(kind.__init__).items() if one.kind not in any_name]  # type: ignore[misc]
    odd, where = [name for name in own if name not in known], "in its __init__"
    if not odd and given and "__dataclass_fields__" not in vars(kind):
        odd, where = [name for name in inspect.get_annotations(kind) if name not in known], "as an annotation alone"
    if odd:
        names = ", ".join(odd)
        raise PlanError(
            f"expected the parameters of {kind.__name__} to be fields of a frozen dataclass, by which plans and "
            f"checkpoints are compared, got {names} {where}; write @dataclass(frozen=True, eq=False, repr=False) above "
            f"the class, {odd[0]}: <type> in it, and what __init__ does in __post_init__"
        )


@cache
def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters after ``self``, by name."""
    return dict(list(inspect.signature(function).parameters.items())[1:])
