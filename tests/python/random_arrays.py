"""Arrays of random numbers."""

from __future__ import annotations

from typing import Any

import numpy


def normal(random: numpy.random.Generator, *shape: int) -> numpy.ndarray[Any, Any]:
    """Normally distributed f32."""
    return random.standard_normal(shape, dtype=numpy.float32)
