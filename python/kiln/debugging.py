"""Looking closely at one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln import _kiln
from kiln.op_call import op_call


def debug_op(
    op: Any,
    *tensors: object,
    out: Any = None,
    stream: object = None,
    config: None | str | Mapping[str, int] = None,
    tuning: str | None = None,
    overlap_previous: bool = False,
    **attributes: object,
) -> _kiln.DebugReport:
    """Makes a call and looks at everything around it: what goes in and comes out, NaN and Inf, how long it takes, which
    kernels it runs, how its results compare with the op's reference, and memory.

    Slow by design: it waits for the device again and again, and reads every element on the CPU. The tensors are left as
    one call leaves them.

    Parameters
    ----------
    op
        The name of an op, a kiln.Op or a kiln.Kernel.
    tensors
        The call's tensors.
    out, stream, config, tuning, overlap_previous
        As in a call.
    attributes
        The op's attributes; tensors may be given by name too.

    Returns
    -------
    DebugReport
        str() is a table; ``results`` is what the call returned, and ``ok`` whether all went well. A call that fails in
        the compiler or on the device does not raise: ``error`` says what failed.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As a call; while the stream is being captured.
    """
    call = op_call(op, tensors, attributes)
    return _kiln.debug_op(
        call.op,
        call.tensors,
        call.arguments,
        out=out,
        stream=stream,
        config=config,
        tuning=tuning,
        overlap_previous=overlap_previous,
    )
