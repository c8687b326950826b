"""Warnings name a line of the user's program, however headrace was called: never its own, nor `sys:1`."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from copies import HEADRACE, PYG, run_program

ROOT = Path(__file__).resolve().parents[3]

#: The line of each program that ends in "# here" is the one that is to be named.
PROGRAMS = {
    "a generator of headrace's": """
        import headrace as hr
        loader = hr.ItemSampler(4, batch_size=2).loader()
        for _ in loader.epochs(1):
            list(loader)
        for _ in loader.epochs(1):  # here
            pass
    """,
    "a generator that a thread runs": """
        from concurrent.futures import ThreadPoolExecutor
        import headrace as hr
        loader = hr.ItemSampler(4, batch_size=2).loader()
        list(loader)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(list, loader.epochs(1)).result()  # here
    """,
    "a progress bar between": """
        import headrace as hr
        from tqdm import tqdm
        loader = hr.ItemSampler(4, batch_size=2).loader()
        list(loader)
        for _ in tqdm(loader.epochs(1), disable=True):  # here
            pass
    """,
    "a stage": """
        import headrace as hr
        graph = hr.Graph.from_coo([0], [1], num_nodes=9)
        plan = hr.ItemSampler(9, batch_size=3).sample_saint(graph, "node", budget=2)
        next(iter(plan.loader()))  # here
    """,
    "a worker": """
        import functools
        import headrace as hr
        from headrace.ops.warn_user import warn_user
        warns = functools.partial(max, "a warning", key=warn_user)  # in no line of this program
        loader = hr.ItemSampler(9, batch_size=3).transform(warns).prefetch(workers=1).loader()
        try:
            for batch in loader:  # here
                pass
        except TypeError:
            pass  # a batch is no text
    """,
    "the end of a program": """
        import atexit, headrace as hr  # here
        loader = hr.ItemSampler(4, batch_size=2).loader()
        list(loader)
        atexit.register(list, loader.epochs(1))
    """,
    "a destructor": """
        from headrace.ops.warn_user import warn_user
        class Holder:
            def __del__(self):
                warn_user("a warning")  # here
        holder = Holder()
        del holder
    """,
    "a hook of torch's": """
        import headrace as hr, torch
        loader = hr.ItemSampler(4, batch_size=2).loader()
        list(loader)
        layer = torch.nn.Identity()
        layer.forward = lambda epochs: epochs
        layer.register_forward_hook(lambda *_: None)
        layer.forward = list
        layer(loader.epochs(1))  # here
    """,
    "a loader of PyG's names": """
        from torch_geometric.data import Data
        import torch, headrace.pyg as pyg
        data = Data(x=torch.ones(3, 1))
        pyg.NeighborLoader(data, [1])  # here
    """,
    "edges that a matrix does not have": """
        from torch_geometric.data import Data
        import torch, headrace.pyg as pyg
        from headrace.pipeline.compat.pyg.graph import graph_of
        data = Data(x=torch.ones(3, 1), num_nodes=3)
        graph_of(data)  # here
    """,
    "another process": """
        import multiprocessing  # here
        from headrace.ops.warn_user import warn_user
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=warn_user, args=("a warning",))
            process.start()
            process.join()
    """,
}


def warned_lines(script: Path, imports: tuple[str, ...]) -> list[tuple[str, int]]:
    ran = run_program(script, imports=imports, environment={**os.environ, "PYTHONWARNINGS": "always"})
    assert ran.returncode == 0, ran.stderr
    found = re.findall(r"^(.*?):(\d+): (?:User|Deprecation)Warning: (.*)", ran.stderr, re.MULTILINE)
    ours = [
        (path, int(line)) for path, line, text in found if "torch.jit" not in text and "torch_geometric" not in path
    ]
    assert ours, ran.stderr
    return ours


@pytest.mark.slow
@pytest.mark.uninstrumented  # programs in which no kernel runs
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_warning_names_a_line_of_the_program(name, tmp_path):
    if "PyG" in name or "matrix" in name:
        pytest.importorskip("torch_geometric")
    lines = PROGRAMS[name].strip("\n").split("\n")
    script = tmp_path / "training.py"
    script.write_text("\n".join(line[8:] for line in lines))
    here = [number for number, line in enumerate(lines, 1) if line.endswith("# here")]
    imports = PYG if "torch_geometric" in PROGRAMS[name] else HEADRACE
    assert set(warned_lines(script, imports)) == {(str(script), number) for number in here}


def test_warnings_are_shown_by_one_function():
    """A number of frames is right for one way to be called, and another one shows a line of headrace, or `sys:1`."""
    by_themselves = set()
    for folder in ("pipeline", "ops", "cuda"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "warnings" in text else ():
                if isinstance(node, ast.Attribute) and ast.unparse(node) in ("warnings.warn", "warnings.warn_explicit"):
                    by_themselves.add(path.relative_to(ROOT).as_posix())
    assert by_themselves == {"ops/warn_user.py"}
