"""Where a program's time goes: recording what it dispatches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kiln._kiln import Profiler


@contextlib.contextmanager
def profile(
    trace: str | None = None,
    *,
    nvtx: bool = False,
    device_time: bool = True,
    max_records: int = 1_000_000,
    device_time_source: str = "automatic",
) -> Iterator[Profiler]:
    """Records what all threads dispatch while the ``with`` block runs.

    Parameters
    ----------
    trace
        A file for Perfetto (https://ui.perfetto.dev) or chrome://tracing, written at the end of the block, whether it
        ends well or not.
    nvtx
        Make ranges around calls and regions for Nsight Systems.
    device_time
        Time work on GPUs; without it only the host is timed.
    max_records
        What is beyond is counted and not kept; about 100 bytes each.
    device_time_source
        ``"cupti"``, ``"events"`` (two around each launch, by which small kernels appear longer), or ``"automatic"``:
        CUPTI where it can be used. ``report().device_timing`` says which it was.

    Yields
    ------
    Profiler
        Its ``report()`` has the rows, and prints as tables.

    Raises
    ------
    ValueError
        While another profiler runs; there is one at a time in a process.
    NotImplementedError
        For ``nvtx`` in a build without it.
    """
    profiler = Profiler(
        nvtx=nvtx, device_time=device_time, max_records=max_records, device_time_source=device_time_source
    )
    try:
        yield profiler
    finally:
        if profiler.is_running:  # report() in the block has stopped it
            profiler.stop()
        if trace is not None:
            profiler.write_trace(str(trace))
