"""A process ends, whatever of Kiln's is still there when the interpreter goes."""

from __future__ import annotations

import pathlib

import pytest
from script_process import run_script

KEPT = {
    "a profiler that runs": "kiln.Profiler()",
    "a pool, and a view of a block": "(lambda pool: (pool, pool.empty(100).numpy()))(kiln.PinnedPool('cpu'))",
    "a view of a pool that is closed": "kiln.PinnedPool('cpu').empty(100).numpy()",
    "a pipeline's tensors": "pipeline_tensors()",
    "a gather": "kiln.PackedGather('cpu')",
    "a graph": "graph()",
}
SCRIPT = """
import sys
import kiln
import numpy as np

X = np.ones(10, np.float32)

def pipeline_tensors():
    kept = []
    kiln.OffloadPipeline("cpu").run([[X]], lambda _, tensors, __: kept.extend(tensors))
    return kept

def graph():
    kiln.ops.neg(X)
    with kiln.capture(device="cpu") as graph:
        kiln.ops.neg(X)
    graph.update(0, [X])
    graph.launch()
    return graph

class Holder:
    pass

sys.holder = Holder()
sys.holder.kept = {kept}
sys.holder.itself = sys.holder
print("done")
"""


@pytest.mark.parametrize("kept", KEPT)
def test_the_process_ends(kept: str, tmp_path: pathlib.Path) -> None:
    assert run_script(SCRIPT.replace("{kept}", KEPT[kept]), tmp_path) == "done\n"
