"""The published series of gathers as ops, and how a gather is called."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any

import kiln
from kiln.launch_meta import Call

SOURCE = pathlib.Path(__file__).with_name("kv_series.cuh")
MAX_WARPS, REGISTER_WARPS = 32, 128  # of a program; of rows in flight together with the warps
#: By kernel: its template parameter.
PARAMETERS = {
    "thread_per_row": "BYTES",
    "warp_per_row": "BYTES",
    "rows_in_flight": "ROWS",
    "contiguous_read": "PIECES",
}


def launch_of(kernel: str) -> Callable[..., kiln.Launch]:
    def launch(call: Call, config: Any) -> kiln.Launch:
        dst, src = call["dst"], call["src"]
        warps = REGISTER_WARPS // call["width"] if kernel == "rows_in_flight" else MAX_WARPS
        return kiln.Launch(
            call["sms"],
            template={PARAMETERS[kernel]: call["width"]},
            arguments={
                "count": call["indices"].numel // 2,
                "row_bytes": dst.shape[1],
                "dst_stride": dst.shape[1],
                "src_stride": src.shape[1],
            },
            num_warps=min(MAX_WARPS, warps),
        )

    return launch


@cache
def series_op(kernel: str) -> kiln.Op:
    """Op over dst [n, row_bytes] and src [slots, row_bytes] of u8 and indices [pairs, 2] of i32, for GPUs.

    Attributes: ``sms``, programs at a time; ``width``, the kernel's template parameter (bytes that a thread moves at a
    time, 1 or 16; rows or pieces in flight).
    """
    return kiln.register_op(
        f"kiln_experiment_{kernel}",
        kernel={"cuda": kiln.Kernel(SOURCE, f"kiln::benchmark::{kernel}", grid=1)},
        inputs=[
            kiln.Input("dst", mutated=True),
            kiln.Input("src", pinned=True),
            kiln.Input("indices", dtypes=["i32"]),
        ],
        attributes={"sms": int, "width": int},
        launch=launch_of(kernel),
        dtypes=["u8"],
    )
