"""Kiln's ops as PyTorch custom ops: `kiln.torch.<name>(...)`, the same as `torch.ops.kiln.<name>`.

They go through torch's dispatcher, so torch.compile keeps them in its graph and torch.cuda.graph captures them. They
take what kiln.ops takes but for out=, stream=, config= and tuning=, run on torch's current stream, and have no
derivatives.

    import kiln.torch

    @torch.compile(fullgraph=True)
    def layer(x, weight, bias):
        return kiln.torch.softmax(kiln.torch.linear(x, weight, bias), dim=-1)

An op registered with kiln.register_op is there as well: by kiln.torch.<name>, or in torch.ops.kiln after
kiln.torch.register(name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("kiln.torch needs PyTorch, which is not installed: pip install torch") from _error

import kiln as _kiln
from kiln.torch_library import register

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["register"]


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(f"module 'kiln.torch' has no attribute '{name}'")
    try:
        call = register(name)
    except _kiln.UsageError as error:
        raise AttributeError(f"kiln.torch.{name}: {error}") from error
    globals()[name] = call
    return call


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_kiln.ops)})


def _register_all() -> None:
    # As globals, not through __getattr__: torch.compile then finds plain functions.
    for name in dir(_kiln.ops):
        if name.isidentifier():  # the others are those behind kernels of kiln.Kernel
            globals()[name] = register(name)


_register_all()
