"""The fuzzer knows every entry point and reaches both sides of each; `make fuzz` runs it for longer."""

from __future__ import annotations

import ast
import inspect
import random
import warnings
from pathlib import Path

import pytest

from headrace import ops
from headrace.ops.sampling.rules import Rule

from fuzz.choices import Choices
from fuzz.table import ENTRIES, NATIVE, PUBLIC

STUB = ast.parse((Path(ops.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))
# One in ten calls asks for too much, any value of an enum is right, there are no arguments.
NEVER_REFUSE = {
    "native.empty",
    "native.has",
    "native.has_io_uring",
    "native.rule_traits",
    "native.threads_in_pool",
    "native.trim_pool",
    "public.trim_pool",
}


def functions_of(stub):
    """The names of functions, and of methods as Class.method."""
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{line.name}" for line in node.body if isinstance(line, ast.FunctionDef))


def function_of(entry):
    """The name of the function that an entry calls: some have one for each kind of arguments."""
    return entry.partition(" ")[0]


def test_every_native_function_has_an_entry():
    assert set(functions_of(STUB)) == set(map(function_of, NATIVE))


def test_every_public_function_has_an_entry():
    """Of the classes those that check their arguments; the others only carry results."""
    public = {name: getattr(ops, name) for name in ops.__all__}
    # `keep_freed_memory` takes nothing, and changes the process.
    functions = {name for name, one in public.items() if inspect.isfunction(one)} - {"keep_freed_memory"}
    rules = {
        name for name, one in public.items() if isinstance(one, type) and issubclass(one, Rule) and one is not Rule
    }
    others = {"BlendedKey", "BlockSampler", "CacheIndex", "Compactor", "TierSizes"}
    assert functions | rules | others == set(map(function_of, PUBLIC))


@pytest.mark.combinations(60)
@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_answers_and_refusals(name):
    """300 calls: a fuzzer of which all calls are refused at the door would test the door."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answered = sum(ENTRIES[name].run(Choices(random.Random(number).randbytes(512))) for number in range(300))
    assert answered >= 30
    assert answered < 300 or name in NEVER_REFUSE
