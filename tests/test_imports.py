"""Which layer may import what, read from the source: the table of layers, as a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    path.relative_to(ROOT) for folder in ("pipeline", "ops", "cuda") for path in (ROOT / folder).rglob("*.py")
)
OPTIONAL = (
    "torch_geometric",
    "dgl",
    "scipy",
    "cupy",
    "ogb",
    "igraph",
    "pymetis",
    "matplotlib",
    "tqdm",
    "duckdb",
    "pyarrow",
    "yaml",
)


#: The wings of the pipeline, a stack: a wing imports those on lines above its own, lazily and for type checkers too.
STACK = (
    ("data",),
    ("interop", "partition"),
    ("distributed",),
    ("storage",),
    ("convert",),
    ("plan",),
    ("lowered",),
    ("stages",),
    ("passes",),
    ("run",),
    ("scores", "models"),
    ("compat", "cli"),
)
BELOW = {wing: {one for below in STACK[:level] for one in below} for level, line in enumerate(STACK) for wing in line}

#: Loaders of another library are subclasses of its own: whoever imports them has it.
OF_A_LIBRARY = {"compat/pyg": "torch_geometric"}


#: The same for the folders of ops/native.
NATIVE_BELOW = {
    "core": set(),
    "random": {"core"},
    "graphs": {"core"},
    "features": {"core"},
    "aggregate": {"core", "random"},
    "cache": {"core"},
    "disk": {"core"},
    "partition": {"core", "random", "graphs"},
    "sampling": {"core", "random", "graphs"},
    "weighted": {"core", "random", "graphs", "sampling"},
    "layerwise": {"core", "random", "graphs", "sampling", "weighted"},
    "walks": {"core", "random", "graphs", "sampling", "weighted"},
    "links": {"core", "random", "graphs", "sampling", "weighted"},
    "bindings": {
        "core",
        "random",
        "graphs",
        "features",
        "disk",
        "partition",
        "sampling",
        "weighted",
        "layerwise",
        "walks",
        "links",
        "cache",
        "aggregate",
    },
}

#: Hops know every rule: what asks each rule for its picks stands above them all.
EVERY_RULE = {"sampling/registry.cpp", "sampling/fused.cpp"}


class Import(NamedTuple):
    name: str
    line: int
    at_import_time: bool
    for_types: bool = False


def package_of(module: Path) -> str:
    """Return the package that relative imports in `module` start from."""
    return ".".join(("headrace", *module.parent.parts))


def imports_in(source: str, package: str) -> list[Import]:
    """Return every import and every use of torch.distributed in `source`, with full names.

    ``from a import b`` counts as ``a.b``: it may be the module of that name.
    """
    found: list[Import] = []

    def visit(node: ast.AST, at_import_time: bool, for_types: bool = False) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, at_import_time, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], *([base] if base else [])]
                )
            found.extend(Import(f"{base}.{alias.name}", node.lineno, at_import_time, for_types) for alias in node.names)
        elif (
            isinstance(node, ast.Attribute) and node.attr == "distributed" and ast.unparse(node) == "torch.distributed"
        ):
            found.append(Import("torch.distributed", node.lineno, at_import_time, for_types))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                visit(child, False, True)
            for child in node.orelse:
                visit(child, at_import_time)
            return
        inside = at_import_time and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside, for_types)

    visit(ast.parse(source), True)
    return found


def within(name: str, *modules: str) -> bool:
    """Whether `name` is one of `modules` or inside one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


@cache
def imports_of(module: Path) -> list[Import]:
    return imports_in((ROOT / module).read_text(), package_of(module))


def assert_none(offending: Iterable[tuple[Path, Import]], rule: str) -> None:
    found = [f"\n  {module}:{entry.line} imports {entry.name}" for module, entry in offending]
    assert not found, rule + "".join(found)


def imports_below(folder: str) -> list[tuple[Path, Import]]:
    return [(module, entry) for module in MODULES if module.is_relative_to(folder) for entry in imports_of(module)]


def test_the_reader_sees_every_form():
    source = """
import torch.distributed as dist
from . import sibling
from ..ops import csc
from headrace import ops
if TYPE_CHECKING:
    import dgl
def f():
    import cupy
class A:
    import scipy
torch.distributed.get_rank()
"""
    assert [(entry.name, entry.at_import_time) for entry in imports_in(source, "headrace.pipeline")] == [
        ("torch.distributed", True),
        ("headrace.pipeline.sibling", True),
        ("headrace.ops.csc", True),
        ("headrace.ops", True),
        ("dgl", False),
        ("cupy", False),
        ("scipy", True),
        ("torch.distributed", True),
    ]


@pytest.mark.slow
def test_layers():
    ops = [one for one in imports_below("ops") if within(one[1].name, "headrace")]
    assert_none(
        [one for one in ops if not within(one[1].name, "headrace.ops", "headrace.cuda")],
        "ops knows no stages",
    )
    assert_none(
        [one for one in ops if within(one[1].name, "headrace.cuda") and one[1].at_import_time],
        "ops reaches cuda when a function is called, not when it is imported",
    )
    cuda = [one for one in imports_below("cuda") if within(one[1].name, "headrace")]
    assert_none([one for one in cuda if not within(one[1].name, "headrace.cuda")], "cuda knows only cupy and torch")
    pipeline = [one for one in imports_below("pipeline") if within(one[1].name, "headrace")]
    assert_none([one for one in pipeline if within(one[1].name, "headrace.cuda")], "pipeline reaches cuda through ops")
    assert all((ops, cuda, pipeline))


def test_every_wing_has_its_place():
    wings = {module.parts[1] for module in MODULES if module.parts[0] == "pipeline" and len(module.parts) > 2}
    assert wings == set(BELOW)


@pytest.mark.parametrize("wing", BELOW)
def test_arrows_point_down(wing):
    allowed = {"headrace.pipeline." + other for other in BELOW[wing] | {wing, "version", "later"}}
    imports = [one for one in imports_below(f"pipeline/{wing}") if within(one[1].name, "headrace.pipeline")]
    assert imports
    assert_none(
        [one for one in imports if not within(one[1].name, *allowed)],
        f"{wing}/ imports {', '.join(sorted(BELOW[wing]))} alone",
    )


def test_passes_see_the_plan_and_a_machine_value_only():
    imports = imports_below("pipeline/passes")
    assert imports
    assert_none(
        [one for one in imports if within(one[1].name, "headrace.ops", "headrace.cuda", "torch", "cupy")],
        "a pass is a function from plan to plan: testable for machines that nobody here owns",
    )


#: Questions of passes about the type of a stage or value; facts and traits answer the others.
MOST_QUESTIONS_ABOUT_TYPES = 30


def test_passes_ask_facts_and_traits_rather_than_types():
    texts = [path.read_text() for path in sorted((ROOT / "pipeline/passes").glob("*.py"))]
    assert sum(len(re.findall(r"\bisinstance\b", text)) for text in texts) <= MOST_QUESTIONS_ABOUT_TYPES


def test_few_modules_of_ops_reach_cuda():
    """What knows of devices for all operations, and what gives arguments to the twins of a subject's."""
    reaching = [
        module
        for module in MODULES
        if module.parts[0] == "ops" and any(within(entry.name, "headrace.cuda") for entry in imports_of(module))
    ]
    assert {str(module) for module in reaching if not module.name.endswith("on_gpu.py")} <= {"ops/gpu.py"}


def test_torch_distributed_is_imported_in_one_module():
    users = [(module, entry) for module, entry in imports_below("") if within(entry.name, "torch.distributed")]
    one = Path("pipeline/distributed/job.py")
    assert one in {module for module, _ in users}
    assert_none(
        [(module, entry) for module, entry in users if module != one],
        "torch.distributed is used through pipeline/distributed/job.py, and channels of it have an in-process twin",
    )


def test_optional_libraries_are_imported_where_they_are_used():
    offending = []
    for module, entry in imports_below(""):
        needed = {library for folder, library in OF_A_LIBRARY.items() if module.is_relative_to(f"pipeline/{folder}")}
        others = [library for library in OPTIONAL if library not in needed]
        if entry.at_import_time and within(entry.name, *others):
            offending.append((module, entry))
    assert_none(offending, "headrace imports without its optional libraries")


def test_nothing_below_imports_the_loaders_of_a_library():
    offending = [
        module
        for module in MODULES
        if not module.is_relative_to("pipeline/compat")
        and module not in (Path("pipeline/_pyg.py"), Path("pipeline/_lightning.py"))
        and any(within(entry.name, "headrace.pipeline.compat") for entry in imports_of(module))
    ]
    assert not offending


def test_torchdata_is_imported_in_one_module():
    users = [(module, entry) for module, entry in imports_below("") if within(entry.name, "torchdata")]
    one = Path("pipeline/run/base_node.py")
    assert one in {module for module, _ in users}
    assert_none(
        [(module, entry) for module, entry in users if entry.at_import_time and module != one],
        "pipeline/run/base_node.py hides which torchdata versions have nodes",
    )


def test_kernels_never_see_python():
    """Only the bindings know what calls them."""
    kernels = [path for path in (ROOT / "ops/native").rglob("*.[ch]pp") if path.parent.name != "bindings"]
    assert kernels
    callers = re.compile(r'#include [<"](Python\.h|nanobind|pybind|torch|ATen|c10|numpy|bindings).*', re.IGNORECASE)
    found = {path.name: match[0] for path in kernels if (match := callers.search(path.read_text()))}
    assert not found, f"kernels are plain C++: {found}"


NATIVE = ROOT / "ops/native"
NATIVE_FILES = sorted(path.relative_to(NATIVE) for path in NATIVE.rglob("*.[ch]pp"))


def included(source: str) -> list[str]:
    """Return the files of ops/native that a source includes; each says in which folder."""
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', source, re.MULTILINE)


def test_the_reader_of_includes_sees_every_form():
    source = (
        '#include "core/buffer.hpp"\n  # include "random/philox.hpp"\n#include <vector>\n// #include "not/this.hpp"\n'
    )
    assert included(source) == ["core/buffer.hpp", "random/philox.hpp"]


def test_every_native_folder_has_its_place():
    assert {path.parts[0] for path in NATIVE_FILES} == set(NATIVE_BELOW)
    assert all(len(path.parts) == 2 for path in NATIVE_FILES)
    assert {path.as_posix() for path in NATIVE_FILES} >= EVERY_RULE


@pytest.mark.parametrize("folder", NATIVE_BELOW)
def test_native_arrows_point_down(folder):
    wrong = []
    for file in (file for file in NATIVE_FILES if file.parts[0] == folder):
        allowed = NATIVE_BELOW[folder] | {folder}
        if file.as_posix() in EVERY_RULE:
            allowed |= {"weighted", "layerwise"}
        found = included((NATIVE / file).read_text(encoding="utf-8"))
        assert all((NATIVE / name).is_file() for name in found), f"{file}: an include names the folder: core/buffer.hpp"
        wrong += [f"{file}: {name}" for name in found if name.split("/")[0] not in allowed]
    assert not wrong, f"{folder}/ includes {', '.join(sorted(NATIVE_BELOW[folder])) or 'nothing'} alone: {wrong}"


#: Modules of `pipeline/lowered/` whose one class is the base of stages elsewhere.
BASES_ALONE = {"_fetch_stage"}


def test_lowered_files_with_an_underscore_are_those_without_a_stage():
    from importlib import import_module

    from headrace.pipeline.plan.stage import Stage

    seen = set()
    for path in MODULES:
        if not path.is_relative_to("pipeline/lowered") or path.name == "__init__.py":
            continue
        module = import_module(".".join(("headrace", *path.with_suffix("").parts)))
        own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
        holds = any(issubclass(one, Stage) for one in own) and path.stem not in BASES_ALONE
        assert holds != path.name.startswith("_"), f"{path}: expected an underscore where no stage is defined"
        seen.add(holds)
    assert seen == {True, False}
