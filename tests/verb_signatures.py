"""Writes `pipeline/plan/verb_signatures.pyi`: signatures and docstrings of verbs and methods, for type checkers.

At run time stages add the verbs themselves; `make stubs` writes the file, and a test compares it.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

from headrace.pipeline import public as _public  # noqa: F401 - all verbs and methods
from headrace.pipeline.plan.plan import Plan, verbs

FILE = Path(__file__).resolve().parents[1] / "pipeline" / "plan" / "verb_signatures.pyi"

#: What a verb takes where its stage keeps it in one form, by the annotation of the stage or by verb and parameter.
ACCEPTED = {
    "tuple[FeatureName, ...]": "FeatureNames",
    "FanoutsByHop": "CountsByHop",
    "SizesByHop": "CountsByHop",
    "Expand": 'Literal["all", "new"]',
    "int": "SupportsIndex",
    "int | None": "SupportsIndex | None",
    "int | Literal['*']": 'SupportsIndex | Literal["*"]',
    ("copy_to", "device"): "str | torch.device",
    ("exclude_seed_edges", "reverse"): "bool | Mapping[Any, Any]",
    ("pad", "num_nodes"): "Sequence[SupportsIndex] | Mapping[Any, Sequence[SupportsIndex]] | None",
    ("pad", "num_edges"): "Sequence[SupportsIndex] | Mapping[Any, Sequence[SupportsIndex]] | None",
    ("sample_uniform_negative", "node_weight"): "ArrayLike | Tensor | str | None",
    ("sample_uniform_negative", "source_weight"): "ArrayLike | Tensor | str | None",
}

#: Verbs behind which a loader yields objects of another library.
CONVERSIONS = ("to_dgl", "to_pyg")

#: Verbs that may follow them.
BEHIND_CONVERSIONS = ("copy_to", "prefetch")

HEADER = '''"""The verbs of plans, for editors and type checkers; written by `make stubs` from the stages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName, LabelNames
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Converted, Plan
from headrace.pipeline.plan.rules import Pass
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.storage.features import FeatureStore

FeatureNames: TypeAlias = str | Sequence[FeatureName] | Mapping[Any, str | Sequence[str]]
CountsByHop: TypeAlias = Sequence[SupportsIndex | Mapping[Any, SupportsIndex]]

'''


def stub() -> str:
    """Return the text of the file."""
    lines = [HEADER, "class Verbs:\n"]
    lines += [_method(name, "Converted" if name in CONVERSIONS else "Plan") for name in verbs()]
    lines += [_method("loader", "Loader[MiniBatch]"), _method("explain", "str")]
    # Their docstrings are those of the verbs above.
    lines += ["class ConvertedVerbs:\n", *(_signature(name, "Converted") + " ...\n" for name in BEHIND_CONVERSIONS)]
    lines.append(_signature("loader", "Loader[Any]") + " ...\n")
    return "\n".join(lines).rstrip() + "\n"


def _method(verb: str, returns: str) -> str:
    text = textwrap.indent(f'"""{inspect.getdoc(getattr(Plan, verb))}\n"""', "        ")
    return f"{_signature(verb, returns)}\n{text}\n"


def _signature(verb: str, returns: str) -> str:
    method = getattr(Plan, verb)
    parameters = ["self"]
    keyword_only = False
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parameters.append("*")
        kept = str(parameter.annotation)
        accepted = ACCEPTED.get((verb, parameter.name)) or ACCEPTED.get(kept) or kept.replace("'", '"')
        default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}".replace("'", '"')
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        parameters.append(f"{stars}{parameter.name}: {accepted}{default}")
    listed = "".join(f"        {parameter},\n" for parameter in parameters)
    return f"    def {verb}(\n{listed}    ) -> {returns}:"


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
