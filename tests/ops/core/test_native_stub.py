"""The hand-kept stub of the compiled module names what the module has, argument by argument."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from headrace import ops
from headrace.ops import _native

STUB = ast.parse((Path(ops.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))


def arguments_by_name():
    """Map "function" or "Class.method" of the stub to its argument names."""
    found = {}
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.decorator_list:  # properties take nothing
                    found[f"{node.name}.{method.name}"] = [argument.arg for argument in method.args.args]
    return found


@pytest.mark.parametrize(("name", "arguments"), arguments_by_name().items(), ids=arguments_by_name())
def test_signatures(name, arguments):
    """The docstring that nanobind writes has one line "name(argument: type, ...) -> type" per overload."""
    function = _native
    for part in name.split("."):
        function = getattr(function, part)
    overloads = [line for line in function.__doc__.splitlines() if f"{name.rsplit('.', maxsplit=1)[-1]}(" in line]
    assert overloads
    for overload in overloads:
        named = re.findall(r"(?<=[( ])(\w+): |\((self)", overload)
        assert [name or self for name, self in named] == arguments


def test_nothing_is_missing():
    stubbed = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert stubbed == {name for name in vars(_native) if not name.startswith("_")}


def test_rules_have_kinds_of_the_table():
    """Each kind has its line, and each rule of the public ones a kind."""
    rules = [
        ops.NeighborRule(1),
        ops.NeighborRule(1, replace=True),
        ops.LatestRule(1),
        ops.LaborRule(1),
        ops.LaborRule(1, exact=False),
        ops.LaborImportanceRule(1),
        ops.LadiesRule(1),
        ops.LadiesRule(1, poisson=True),
    ]
    assert [rule.kind for rule in rules] == list(_native.rule_traits())
    for rule in rules:
        _native.Rule(rule.kind, rule.count, rule.rounds)
        assert rule.traits._asdict() == _native.rule_traits()[rule.kind]
    with pytest.raises(ops.InputError, match="no kind of rules is called"):
        _native.Rule("nearest", 1)
