"""How much memory this process has."""

from __future__ import annotations

import gc
import pathlib
import resource


def resident_bytes() -> int:
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
