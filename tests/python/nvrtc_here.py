"""Whether kernels for GPUs can be compiled here."""

from __future__ import annotations

import kiln
import pytest


def needs_nvrtc() -> None:
    """Skips the test where they cannot."""
    try:
        kiln.inspect("neg", kiln.TensorMeta("f32", (4,)), target="sm_90a", emit="ptx")
    except (kiln.DeviceError, kiln.UsageNotImplementedError) as error:
        pytest.skip(f"no compiler for GPUs: {error}")
