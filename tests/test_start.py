"""What is loaded when: `import headrace` and the command load little, a plan and a loader what they need."""

from __future__ import annotations

import ast
import gc
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import UnionType

import pytest

import headrace as hr
import headrace.ops
from headrace.ops.names import load
from headrace.pipeline.later import METHODS, VERBS
from headrace.pipeline.passes import PASSES

TESTS = Path(__file__).resolve().parent

#: Of headrace, by `import headrace`: what holds the names, and packages on the way there.
MOST_AT_IMPORT = 12

#: Of everything, by graph, store, plan and loader, torch being there: each costs a third of a millisecond.
MOST_FOR_A_PLAN = 115
MOST_FOR_A_LOADER = 67

#: All of distributed/ but this: whether there are several ranks, how many share this machine, and how workers end.
FOR_SEVERAL_RANKS = sorted(
    {path.stem for path in (TESTS.parent / "pipeline/distributed").glob("*.py")} - {"__init__", "job", "closing"}
)

#: What a loader of one process on the CPU has no use for.
NOT_FOR_A_LOADER = (
    "headrace.cuda",
    "headrace.ops.aggregate",
    *(f"headrace.pipeline.distributed.{name}" for name in FOR_SEVERAL_RANKS),
    "headrace.pipeline.interop.conversions",
    "headrace.pipeline.lowered.ranks",
    "headrace.pipeline.lowered.gpu",
    "headrace.pipeline.models",
    "headrace.pipeline.partition",
    "headrace.pipeline.passes.cooperative",
    "headrace.pipeline.passes.exclude_edges",
    "headrace.pipeline.passes.fetch_at_owners",
    "headrace.pipeline.passes.uva_gather",
    "headrace.pipeline.run.same_plan",
    "headrace.pipeline.run.several_ranks",
    "headrace.pipeline.storage.sharded_feature",
)

FIRST_PLAN = """
graph = hr.Graph.from_coo(torch.arange(90), torch.arange(90).roll(1), num_nodes=90)
store = hr.FeatureStore(node={"x": torch.randn(90, 4), "y": torch.arange(90)})
plan = hr.ItemSampler(90, batch_size=10, shuffle=True).sample_neighbor(graph, fanouts=[2, 2])
plan = plan.fetch_feature(store, node=["x"], labels="y")
"""


def of_a_fresh_process(program: str) -> object:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_import_loads_neither_torch_nor_what_names_stand_for():
    program = "import sys, json; import headrace; print(json.dumps(list(sys.modules)))"
    loaded = of_a_fresh_process(program)
    assert not {"torch", "numpy", "torchdata"} & set(loaded)
    assert len([name for name in loaded if name.split(".")[0] == "headrace"]) <= MOST_AT_IMPORT


COMMANDS = ("convert", "generate", "info", "head", "verify", "explain", "reorder", "partition", "doctor")

#: Of the process, with the start of Python; by the clock of the CPU, which other processes do not move.
MOST_SECONDS_FOR_HELP = 0.15


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["no such command"], *([name, "--help"] for name in COMMANDS)]
)
def test_the_command_says_what_it_is_without_torch(arguments):
    program = f"""
import sys, json
from headrace.pipeline.cli.command_line import main
try:
    main({arguments!r})
except SystemExit:
    print(json.dumps(list(sys.modules)))
"""
    assert not {"torch", "numpy", "headrace.pipeline.storage"} & set(of_a_fresh_process(program))


def test_help_names_every_command_and_is_fast():
    program = """
import time, json
from headrace.pipeline.cli.command_line import main
try:
    main(["--help"])
except SystemExit:
    print(json.dumps(time.process_time()))
"""
    # A machine that does other work makes some of them slow.
    assert any(of_a_fresh_process(program) <= MOST_SECONDS_FOR_HELP for _ in range(12))
    result = subprocess.run([sys.executable, "-m", "headrace", "--help"], capture_output=True, text=True, check=True)
    assert re.findall(r"^    ([a-z]+)", result.stdout, flags=re.MULTILINE) == list(COMMANDS)


def test_a_loader_loads_what_it_needs():
    program = f"""
import sys, json, torch
before = set(sys.modules)
import headrace as hr
{FIRST_PLAN}
planned = set(sys.modules)
loader = plan.loader(machine=hr.Machine(cores=2))
loaded = set(sys.modules)
next(iter(loader))
print(json.dumps([sorted(planned - before), sorted(loaded - planned), sorted(set(sys.modules) - loaded)]))
"""
    planned, loaded, ran = of_a_fresh_process(program)
    assert len(planned) <= MOST_FOR_A_PLAN, planned
    assert len(loaded) <= MOST_FOR_A_LOADER, loaded
    assert not ran, "what the first batch needs is loaded with the loader"
    assert not {*planned, *loaded} & set(NOT_FOR_A_LOADER)


def test_no_garbage_is_collected_while_headrace_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "asks_of_collection.py").write_text("import gc\nenabled = gc.isenabled()\n")
    (tmp_path / "fails_to_load.py").write_text("raise KeyError\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert gc.isenabled()
    assert not load("asks_of_collection").enabled
    assert gc.isenabled()
    with pytest.raises(KeyError):
        load("fails_to_load")
    assert gc.isenabled()
    gc.disable()
    try:
        load("asks_of_collection")
        assert not gc.isenabled(), "who switched it off finds it off"
    finally:
        gc.enable()


def test_a_table_names_the_file_of_each_verb():
    """A new stage has its line there: without it, its verb would be there only when its file was loaded."""
    written: dict[str, str] = {}
    for path in sorted((TESTS.parent / "pipeline/stages").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "verb":
                        written[ast.literal_eval(decorator.args[0])] = f"headrace.pipeline.stages.{path.stem}"
    assert written == VERBS
    assert [name for name in (*METHODS, *VERBS) if not callable(getattr(hr.Plan, name))] == []
    assert set(METHODS) == {"loader", "explain"}


@pytest.mark.parametrize("module", [hr, headrace.ops], ids=lambda module: module.__name__)
def test_tables_name_the_module_of_each_name(module):
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, UnionType):
            continue  # its name is that of all unions since Python 3.14
        assert getattr(value, "__name__", name) in (name, f"{getattr(value, '__module__', '')}.{name}") or name in (
            "nn",
            "rng",
            "saint",
            "sar",
            "scores",
        )


@pytest.mark.thorough
def test_each_name_is_imported_alone():
    """In fresh processes, forked: from headrace import X, for each X."""
    program = f"""
import json, os, torch, headrace
wrong = []
for name in {hr.__all__!r}:
    child = os.fork()
    if child == 0:
        try:
            exec(f"from headrace import {{name}}")
            assert name in dir(headrace)
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        wrong.append(name)
print(json.dumps(wrong))
"""
    assert of_a_fresh_process(program) == []


def test_a_source_of_ones_own_has_verbs_whatever_is_loaded():
    program = """
import json, headrace as hr
class Mine(hr.SourceStage):
    name, seed = "mine", 7
    def source(self, settings): ...
print(json.dumps([callable(Mine().prefetch), callable(Mine().loader), "sample_neighbor" in dir(Mine()),
                  "sample_neighbor" in hr.verbs(), hr.Plan.sample_neighbor.__doc__[:6]]))
"""
    assert of_a_fresh_process(program) == [True, True, True, True, "Sample"]


def test_verbs_of_our_own_are_not_taken_again():
    program = """
import json, headrace as hr
try:
    hr.verb("sample_neighbor")(hr.MapStage)
except hr.PlanError as error:
    print(json.dumps(str(error)))
"""
    assert "already have a method" in of_a_fresh_process(program)


def test_pickles_are_read_in_a_fresh_process(tmp_path):
    plan = hr.ItemSampler(10, batch_size=4).prefetch(workers=1)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    program = f"""
import json, pickle
plan = pickle.load(open({str(tmp_path / "plan")!r}, "rb"))
print(json.dumps([batch.seeds.tolist() for batch in plan.loader()]))
"""
    assert of_a_fresh_process(program) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_passes_have_files_of_their_names():
    files = {path.stem for path in (TESTS.parent / "pipeline/passes").glob("*.py") if "RULES = " in path.read_text()}
    assert {one.name for one in PASSES} == files


@pytest.mark.thorough
@pytest.mark.slow
def test_passes_that_are_not_loaded_have_nothing_to_do():
    """Each plan is rewritten alike in a process that has loaded what it needs alone, and in one that has loaded all."""
    program = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})"
        """
import importlib, json, os, pkgutil
import headrace as hr
from plans import PLANS
from headrace.pipeline.passes import rewrite
import headrace.pipeline

MACHINES = [hr.Machine(cores=1), hr.Machine(cores=4), hr.Machine(cores=4, world_size=2)]

def explained(name):
    return "\\n".join(rewrite(PLANS[name](), machine).explain() for machine in MACHINES)

def in_a_child(name):
    read, write = os.pipe()
    if os.fork() == 0:
        with os.fdopen(write, "w") as out:
            out.write(explained(name))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.wait()
    return text

few = {name: in_a_child(name) for name in PLANS}
for module in pkgutil.walk_packages(headrace.pipeline.__path__, "headrace.pipeline."):
    if not module.name.startswith("headrace.pipeline.compat"):
        importlib.import_module(module.name)
different = [name for name in PLANS if few[name] != explained(name)]
print(json.dumps([len([text for text in few.values() if "plan that runs" in text]), different]))
"""
    )
    from plans import PLANS

    assert of_a_fresh_process(program) == [len(PLANS), []]
