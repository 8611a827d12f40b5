"""What a device can do at most: how fast it moves bytes, and how fast it computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import kiln
from kiln.benchmarking import benchmark

COPY_ELEMENTS = 2**25  # 128 MiB read and as many written: more than caches hold
MATMUL_EXTENT = 2048
BUDGET_S = 1.0


@dataclass(frozen=True)
class Roofline:
    """The two roofs, and where each number is from."""

    gb_s: float | None
    tflop_s: float | None
    gb_s_source: str = "peak"
    tflop_s_source: str = "peak"


def random_values(size: list[int], device: str) -> Any:
    """f32 numbers from 0 to 1: zeros would take a GPU less power than real data, and raise its clock."""
    return kiln.ops.uniform(size=size, seed=1, device=device)


def measure_roofline(device: str, known: Roofline = Roofline(None, None)) -> Roofline:
    """Fills in what is not known, by the rates of Kiln's own copy and matmul on ``device``.

    That is what Kiln reaches rather than what a data sheet says: another library may stand above this roof.
    """
    found = known
    if found.gb_s is None:
        of_copy = benchmark("copy", random_values([COPY_ELEMENTS], device), budget_s=BUDGET_S)
        found = replace(found, gb_s=of_copy.gb_s, gb_s_source="copy, measured")
    if found.tflop_s is None:
        matrix = random_values([MATMUL_EXTENT, MATMUL_EXTENT], device)
        of_matmul = benchmark("matmul", matrix, matrix, budget_s=BUDGET_S)
        found = replace(found, tflop_s=of_matmul.tflop_s, tflop_s_source="f32 matmul, measured")
    return found
