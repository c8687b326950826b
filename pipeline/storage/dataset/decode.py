"""JSON as the dataclasses that describe it: each value is checked against its annotation and named by its path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from headrace.ops.errors import InputError
from headrace.pipeline.storage.json_fields import count_of

T = TypeVar("T")

_WORDS: dict[Any, str] = {str: "a string", bool: "true or false", int: "an integer", type(None): "null"}


def decode(kind: type[T], value: Any, path: str = "") -> T:
    """Return a value of JSON as a dataclass, with the dataclasses, tuples and mappings in it.

    Integers count something: they are at least 0 and at most 2**63 - 1. Lists become tuples.

    Parameters
    ----------
    kind
        A dataclass whose fields are annotated with int, str, bool, None, dataclasses, ``tuple[T, ...]``,
        ``tuple[T, U]``, ``Mapping[str, T]``, unions of these of which at most one is a list and one an object, and Any.
        A field with a default may be missing.
    path
        Where the value is in the file, for errors.

    Raises
    ------
    InputError
        If a field is missing, unknown, or of another kind, naming its path: ``features[0].rows.shape[1]``.
    """
    result: T = _decoded(kind, value, path)
    return result


def leaves(value: Any, kind: type[T], path: str = "") -> Iterator[tuple[str, T]]:
    """Yield the objects of one dataclass inside another, each with its path, in the order of the fields."""
    if isinstance(value, kind):
        yield path, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), kind, _inside(path, field.name))
    elif isinstance(value, Mapping):
        for name, element in value.items():
            yield from leaves(element, kind, _inside(path, name))
    elif isinstance(value, tuple):
        for place, element in enumerate(value):
            yield from leaves(element, kind, f"{path}[{place}]")


def replaced(value: Any, kind: type[T], change: Callable[[T], Any]) -> Any:
    """Return a dataclass in which the objects of another one, wherever they are inside, are changed."""
    if isinstance(value, kind):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = {field.name: replaced(getattr(value, field.name), kind, change) for field in fields(value)}
        return replace(value, **inside)
    if isinstance(value, Mapping):
        return {name: replaced(element, kind, change) for name, element in value.items()}
    return tuple(replaced(element, kind, change) for element in value) if isinstance(value, tuple) else value


def _decoded(kind: Any, value: Any, path: str) -> Any:
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        fitting = [one for one in arguments if _is_of(one, value)]
        if not fitting:
            raise _mismatch(path, " or ".join(map(_word, arguments)), value)
        return _decoded(fitting[0], value, path)
    if not _is_of(kind, value):
        raise _mismatch(path, _word(kind), value)
    if kind is int:
        return count_of(value, path)
    if is_dataclass(kind):
        return _dataclass(kind, value, path)
    if origin is tuple:
        return _tuple(arguments, value, path)
    if origin is not None:
        return {name: _decoded(arguments[1], element, _inside(path, name)) for name, element in value.items()}
    return value


def _dataclass(kind: Any, value: dict[str, Any], path: str) -> Any:
    annotations = _annotations(kind)
    if unknown := [name for name in value if name not in annotations]:
        raise InputError(f"expected no field {_inside(path, unknown[0])!r}, got one; its fields are {[*annotations]}")
    optional = {field.name for field in fields(kind) if (field.default, field.default_factory) != (MISSING, MISSING)}
    if missing := [name for name in annotations if name not in value and name not in optional]:
        raise InputError(f"expected the field {_inside(path, missing[0])!r}, but it is missing")
    return kind(**{name: _decoded(annotations[name], one, _inside(path, name)) for name, one in value.items()})


def _tuple(arguments: tuple[Any, ...], value: list[Any], path: str) -> tuple[Any, ...]:
    kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
    if len(kinds) != len(value):
        raise InputError(f"expected {path} of {len(kinds)} elements, got {len(value)}")
    return tuple(_decoded(*one, f"{path}[{place}]") for place, one in enumerate(zip(kinds, value, strict=True)))


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value of JSON is of a kind, but for what is in it."""
    origin = get_origin(kind) or kind
    if origin is tuple:
        return isinstance(value, list)
    if is_dataclass(kind) or get_origin(kind) is not None:
        return isinstance(value, dict)
    return kind is Any or type(value) is kind


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _word(kind: Any) -> str:
    return _WORDS.get(kind) or ("a list" if get_origin(kind) is tuple else "an object")


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _mismatch(path: str, expected: str, value: Any) -> InputError:
    return InputError(f"expected {path or 'an object'} to be {expected}, got {str(value)[:80]!r}")
