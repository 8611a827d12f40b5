"""What a device can do at most: how fast it moves bytes, and how fast it computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kiln import _kiln


@dataclass(frozen=True)
class Roofline:
    """The two roofs, and where each number is from."""

    gb_s: float | None
    tflop_s: float | None
    gb_s_source: str = "peak"
    tflop_s_source: str = "peak"


def measure_roofline(device: str, known: Roofline = Roofline(None, None)) -> Roofline:
    """Fills in what is not known, by kiln.measured_peak and kiln.measured_matmul_peak of f32.

    That is what Kiln reaches rather than what a data sheet says: another library may stand above this roof.
    """
    found = known
    if found.gb_s is None:
        of_memory = _kiln.measured_peak(device)
        found = replace(found, gb_s=of_memory.bandwidth_gb_s, gb_s_source=f"{of_memory.rates[0].op}, measured")
    if found.tflop_s is None:
        of_matmul = _kiln.measured_matmul_peak(device, "f32")
        found = replace(found, tflop_s=of_matmul.tflop_s, tflop_s_source="f32 matmul, measured")
    return found
