"""What `import headrace` gives, and what it must not do."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import headrace as hr
import headrace.ops

from copies import TORCH, run_program

ROOT = Path(__file__).resolve().parent.parent

# A name enters or leaves this list on purpose, with a line in CHANGELOG.md.
PUBLIC = [
    "Block",
    "CachedFeature",
    "ClusterSampler",
    "Comm",
    "Dataset",
    "DiskFeature",
    "EdgePartition",
    "FeatureSource",
    "FeatureStore",
    "GlobalBatch",
    "Graph",
    "HeadraceError",
    "InputError",
    "ItemSampler",
    "Items",
    "Loader",
    "Machine",
    "MiniBatch",
    "Partition",
    "PeerError",
    "Place",
    "Plan",
    "PlanError",
    "PlanWarning",
    "QuantizedFeature",
    "Rows",
    "ShardedFeature",
    "StateError",
    "TieredFeature",
    "cached",
    "convert",
    "cooperative",
    "gcn_norm",
    "inference",
    "keep_freed_memory",
    "open_dataset",
    "plan_tiers",
    "reorder",
    "save_dataset",
    "split_links",
    "split_nodes",
    "sum_gradients",
    "sum_hook",
]

# Modules, each imported as one.
PUBLIC_MODULES = ["ext", "lightning", "nn", "ops", "pyg", "sar", "scores", "testing"]

# The same for array functions.
OPS = [
    "Attended",
    "AttentionDropout",
    "AttentionScores",
    "BlendedKey",
    "BlockSampler",
    "ByRelation",
    "CacheIndex",
    "Compacted",
    "Compactor",
    "Csc",
    "EdgeLaw",
    "EdgePositions",
    "Extremes",
    "FetchedRows",
    "Grouped",
    "HeadraceError",
    "Hop",
    "HopRule",
    "InputError",
    "JoinedHops",
    "LaborImportance",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesDraw",
    "LadiesRule",
    "LatestRule",
    "LayerReducer",
    "LineCache",
    "NeighborRule",
    "NodeLaw",
    "PeerError",
    "PlanError",
    "Rule",
    "Sampled",
    "SampledHop",
    "SetIndex",
    "SetLookup",
    "StateError",
    "Subgraph",
    "TierSizes",
    "Transposed",
    "Trees",
    "TypedRows",
    "Visits",
    "WeightSums",
    "aggregate_with_grad",
    "attend",
    "attend_with_grad",
    "check_csc",
    "check_weights",
    "compact",
    "coo_to_csc",
    "decode_rows",
    "dependent_key",
    "draw_edges",
    "draw_ladies",
    "draw_negatives",
    "draw_nodes",
    "dropout_mask",
    "edge_law",
    "fetch_rows",
    "find_edges",
    "gather_rows",
    "gather_rows_with_grad",
    "gather_tables",
    "group_by_owner",
    "has_parallel_edges",
    "hash_owners",
    "inclusion_probability",
    "induced_subgraph",
    "join_hops",
    "keep_freed_memory",
    "labor_importance",
    "locate_rows",
    "node_law",
    "pinsage_neighbors",
    "positions_in_parts",
    "random_walk",
    "reach_sources",
    "reorder_csc",
    "sample_fetched",
    "sample_hop",
    "scatter_add_rows",
    "sddmm",
    "shuffled_range",
    "spmm",
    "spmm_extreme",
    "stream_key",
    "subgraph_weights",
    "sum_to_sources",
    "transpose_csc",
    "trim_pool",
    "typed_rows",
    "unique_and_inverse",
    "use_huge_pages",
    "weight_sums",
]

NOT_LOADED = ["torchdata", "torch_geometric", "dgl", "cupy", "scipy", "matplotlib", "tqdm", "igraph", "pymetis", "ogb"]


#: Files of the root of the package, and where they are in the tree.
FILES = {"__init__": "_package", "__main__": "_main"}
FILES |= {name: f"_{name}" for name in ("ext", "lightning", "nn", "pyg", "sar", "scores", "testing")}


@pytest.mark.parametrize("name", FILES)
def test_the_installed_root_is_current(name):
    """The public root is copied when headrace is installed, in editable installs too."""
    installed, source = Path(hr.__file__).with_name(f"{name}.py"), ROOT / f"pipeline/{FILES[name]}.py"
    assert installed.read_text() == source.read_text(), (
        f"{source.name} has changed since headrace was installed: run `make .venv/.installed`"
    )


def test_every_file_of_the_root_is_installed():
    assert {path.stem for path in (ROOT / "pipeline").glob("_*.py")} - {"__init__"} == set(FILES.values())


def test_every_module_is_installed():
    """And found, whatever it imports."""
    modules = [path.relative_to(ROOT) for wing in ("pipeline", "ops", "cuda") for path in (ROOT / wing).rglob("*.py")]
    names = [
        ".".join(("headrace", *path.with_suffix("").parts)).removesuffix(".__init__")
        for path in modules
        if path.parent != Path("pipeline") or not path.name.startswith("_")
    ]
    assert len(names) > 500
    assert not [name for name in names if find_spec(name) is None]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ext", "nn", "sar", "scores", "testing"])
def test_modules_are_imported_as_modules(name):
    program = f"""
import headrace.{name}
import headrace.{name} as module
import pickle, sys
import headrace as hr
from headrace import {name}
from headrace.{name} import *
assert module is hr.{name} is {name} is sys.modules["headrace.{name}"]
assert module.__name__ == module.__spec__.name == "headrace.{name}"
assert [one for one in dir(module) if not one.startswith("_")] == sorted(module.__all__)
for one in module.__all__:
    assert globals()[one] is getattr(module, one)
    assert pickle.loads(pickle.dumps(getattr(module, one))) is getattr(module, one)
try:
    module.nothing_of_this_name
except AttributeError as error:
    assert "headrace.{name}" in str(error), error
"""
    ended = run_program(program, imports=TORCH)
    assert ended.returncode == 0, ended.stderr


def test_the_version_is_that_of_the_installed_package():
    assert hr.__version__ == version("headrace")


def test_the_changelog_and_the_citation_are_of_this_version():
    released = re.findall(r"^## \[(\d.*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert released[0] == (hr.__version__, cited["date-released"])
    assert cited["version"] == hr.__version__


def test_a_package_without_metadata_is_imported():
    """As one that is vendored or frozen: its files are there, and nothing says that they were installed."""
    program = """
import torch, sys
from importlib import metadata
def version(name):
    raise metadata.PackageNotFoundError(name)
metadata.version = metadata.distribution = version
import headrace
from headrace.pipeline.cli.command_line import main
sys.exit(main(["--version"]))
"""
    ran = run_program(program, imports=TORCH)
    assert ran.stdout == f"headrace {hr.__version__}\n", ran.stderr


def test_public_names():
    assert hr.__all__ == PUBLIC
    assert headrace.ops.__all__ == OPS


def test_dir_shows_public_names_alone():
    """Beside what Python itself puts into every module."""
    assert [name for name in dir(hr) if not name.startswith("_")] == sorted([*PUBLIC, *PUBLIC_MODULES])
    assert "__version__" in dir(hr)


def test_scores_show_functions_alone():
    """Not the modules that these are in: one of a function's name would be called in its place."""
    shown = {name: getattr(hr.scores, name) for name in dir(hr.scores) if not name.startswith("__")}
    assert list(shown) == hr.scores.__all__
    assert all(inspect.isfunction(value) for value in shown.values())
    assert not hasattr(hr.scores, "pagerank")


@pytest.mark.parametrize("module", [hr, headrace.ops], ids=lambda module: module.__name__)
def test_all_is_sorted_and_is_the_namespace(module):
    assert module.__all__ == sorted(module.__all__)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing
    unlisted = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in module.__all__ and isinstance(value, type | type(pytest.skip))
    ]
    assert not unlisted, "public by name, but not in __all__"


@pytest.mark.slow
def test_dir_shows_all_public_names():
    """Those that are loaded when asked for the first time included: a fresh process has loaded none of them."""
    program = "import headrace as hr; print([name for name in hr.__all__ if name not in dir(hr)])"
    result = run_program(program, imports=TORCH)
    assert result.stdout.strip() == "[]", result.stderr


def test_errors_form_one_tree():
    errors = [
        value for name in hr.__all__ if isinstance(value := getattr(hr, name), type) and issubclass(value, Exception)
    ]
    assert all(issubclass(error, hr.HeadraceError | Warning) for error in errors)


@pytest.mark.slow
def test_import_loads_and_starts_nothing():
    """A fresh process: what this one has loaded says nothing."""
    program = f"""
import json, sys, threading
import torch
before = set(sys.modules)
threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
import headrace
import torch.distributed
print(json.dumps({{
    "loaded": [name for name in {NOT_LOADED} if name in set(sys.modules) - before],
    "process group": torch.distributed.is_available() and torch.distributed.is_initialized(),
    "cuda": torch.cuda.is_initialized(),
    "threads": threading.active_count() - 1,
    "torch threads": torch.get_num_threads() - threads,
    "generator moved": not torch.equal(generator, torch.random.get_rng_state()),
}}))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    expected = {
        "loaded": [],
        "process group": False,
        "cuda": False,
        "threads": 0,
        "torch threads": 0,
        "generator moved": False,
    }
    assert json.loads(result.stdout) == expected
    assert result.stderr == ""
