"""Which layer may import what, read from the source: the table of layers, as a test."""

from __future__ import annotations

import ast
import re
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
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.distributed":
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


def assert_none(module: Path, offending: list[Import], rule: str) -> None:
    assert not offending, rule + "".join(f"\n  {module}:{entry.line} imports {entry.name}" for entry in offending)


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


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_layers(module):
    imports = imports_of(module)
    top = module.parts[0]
    if top == "ops":
        assert_none(
            module,
            [
                entry
                for entry in imports
                if within(entry.name, "headrace") and not within(entry.name, "headrace.ops", "headrace.cuda")
            ],
            "ops knows no stages",
        )
        assert_none(
            module,
            [entry for entry in imports if within(entry.name, "headrace.cuda") and entry.at_import_time],
            "ops reaches cuda when a function is called, not when it is imported",
        )
    elif top == "cuda":
        assert_none(
            module,
            [entry for entry in imports if within(entry.name, "headrace") and not within(entry.name, "headrace.cuda")],
            "cuda knows only cupy and torch",
        )
    else:
        assert_none(
            module,
            [entry for entry in imports if within(entry.name, "headrace.cuda")],
            "pipeline reaches cuda through ops",
        )


def test_every_wing_has_its_place():
    wings = {module.parts[1] for module in MODULES if module.parts[0] == "pipeline" and len(module.parts) > 2}
    assert wings == set(BELOW)


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module.parts[0] == "pipeline" and len(module.parts) > 2], ids=str
)
def test_arrows_point_down(module):
    wing = module.parts[1]
    allowed = {"headrace.pipeline." + other for other in BELOW[wing] | {wing, "version", "later"}}
    offending = [
        entry
        for entry in imports_of(module)
        if within(entry.name, "headrace.pipeline") and not within(entry.name, *allowed)
    ]
    assert_none(module, offending, f"{wing}/ imports {', '.join(sorted(BELOW[wing]))} alone")


@pytest.mark.parametrize("module", [module for module in MODULES if module.is_relative_to("pipeline/passes")], ids=str)
def test_passes_see_the_plan_and_a_machine_value_only(module):
    offending = [
        entry for entry in imports_of(module) if within(entry.name, "headrace.ops", "headrace.cuda", "torch", "cupy")
    ]
    assert_none(
        module, offending, "a pass is a function from plan to plan: testable for machines that nobody here owns"
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


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module != Path("pipeline/distributed/job.py")], ids=str
)
def test_torch_distributed_is_imported_in_one_module(module):
    offending = [entry for entry in imports_of(module) if within(entry.name, "torch.distributed")]
    assert_none(
        module,
        offending,
        "torch.distributed is used through pipeline/distributed/job.py, and channels of it have an in-process twin",
    )


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_optional_libraries_are_imported_where_they_are_used(module):
    needed = {library for folder, library in OF_A_LIBRARY.items() if module.is_relative_to(f"pipeline/{folder}")}
    others = [library for library in OPTIONAL if library not in needed]
    offending = [entry for entry in imports_of(module) if entry.at_import_time and within(entry.name, *others)]
    assert_none(module, offending, "headrace imports without its optional libraries")


def test_nothing_below_imports_the_loaders_of_a_library():
    offending = [
        module
        for module in MODULES
        if not module.is_relative_to("pipeline/compat")
        and module not in (Path("pipeline/_pyg.py"), Path("pipeline/_lightning.py"))
        and any(within(entry.name, "headrace.pipeline.compat") for entry in imports_of(module))
    ]
    assert not offending


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module != Path("pipeline/run/base_node.py")], ids=str
)
def test_torchdata_is_imported_in_one_module(module):
    offending = [entry for entry in imports_of(module) if entry.at_import_time and within(entry.name, "torchdata")]
    assert_none(module, offending, "pipeline/run/base_node.py hides which torchdata versions have nodes")


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


@pytest.mark.parametrize("file", NATIVE_FILES, ids=str)
def test_native_arrows_point_down(file):
    folder = file.parts[0]
    allowed = NATIVE_BELOW[folder] | {folder}
    if file.as_posix() in EVERY_RULE:
        allowed |= {"weighted", "layerwise"}
    found = included((NATIVE / file).read_text(encoding="utf-8"))
    assert all((NATIVE / name).is_file() for name in found), "an include names the folder: core/buffer.hpp"
    wrong = [name for name in found if name.split("/")[0] not in allowed]
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
