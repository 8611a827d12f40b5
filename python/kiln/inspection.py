"""Looking at what a call runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln import _kiln
from kiln.argument import check_text
from kiln.op_call import op_call


def inspect(
    op: Any,
    *tensors: object,
    emit: str = "source",
    device: str | None = None,
    target: str | None = None,
    config: None | str | Mapping[str, int] = None,
    **attributes: object,
) -> Any:
    """Shows the kernels that a call runs. Nothing is launched, and no data is read.

    Parameters
    ----------
    op
        The name of an op, a kiln.Op or a kiln.Kernel.
    tensors
        Arrays, or kiln.TensorMeta, which have a dtype and a shape only.
    emit
        ``"source"``: what is given to the compiler. For the CPU ``"llvm-ir"`` and ``"asm"``. For GPUs ``"ptx"``,
        ``"sass"`` (needs cuobjdump or nvdisasm) and ``"resources"``: registers, shared memory and spills of each
        kernel, whether its products on wgmma wait for each other (``serializes_products``), and ``occupancy``: how many
        of its programs are on a multiprocessor at a time, of how many warps, and what they are limited by; ``"costs"``:
        a table of what each line of a kernel's source became: accesses of shared memory (where layouts change), shuffles, barriers
        and so on. ``"plan"``: variant, config and where it came from, kernels and their grids, bytes and flops.
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; None: where the tensors are.
    target
        A GPU that need not be here, such as ``"sm_90a"``, in place of a device.
    config
        As in a call; None: what a call on this device takes, tuned or not, and for a ``target`` the op's default.
    attributes
        The op's attributes; tensors may be given by name too.

    Returns
    -------
    str or dict
        Text; for ``"resources"`` a dict by kernel, and for ``"plan"`` a dict.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As a call; for a form that the target does not have.
    kiln.CompileError
        For a kernel that does not compile.
    kiln.DeviceError
        Where a compiler or a disassembler is missing.
    """
    check_text("emit", emit)
    check_text("device", device, or_none=True)
    check_text("target", target, or_none=True)
    call = op_call(op, tensors, attributes)
    return _kiln.inspect_call(call.op, call.tensors, call.arguments, emit, device, target, config)
