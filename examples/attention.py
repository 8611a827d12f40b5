#!/usr/bin/env python3
"""Makes an op of attention, whose kernel is a page in the tile language, checks it against NumPy, tunes it, and times it.

Runs on NumPy arrays; on a GPU where torch has one. The kernel is examples/attention.hpp.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
from typing import Any

import kiln
import numpy as np

Array = np.ndarray[Any, Any]

kernel = kiln.Kernel(pathlib.Path(__file__).with_name("attention.hpp"), grid=lambda meta: 1)


def infer(inputs: Any, **_: Any) -> list[Any]:
    """One result like q. The kernel trusts what is said here: a shape that is let through is read to its end."""
    shape = tuple(inputs[0].shape)
    if len(shape) != 3 or shape[2] not in (16, 32, 64, 128):
        raise ValueError(f"q has shape {shape}; expected (heads, length, head size), a head size of 16, 32, 64 or 128")
    for name, meta in zip("kv", inputs[1:], strict=True):
        if (tuple(meta.shape), meta.dtype) != (shape, inputs[0].dtype):
            raise ValueError(
                f"{name} is {meta.dtype} {tuple(meta.shape)}; expected what q is, {inputs[0].dtype} {shape}"
            )
    return [(inputs[0].dtype, shape)]


#: Heads whose keys pass through the L2 cache at once: blocks of causal calls are begun with the longest of all of them.
MOST_HEADS_TOGETHER = 16


def launch(call: Any, config: Any) -> kiln.Launch:
    heads, length, head_size = call["q"].shape
    most = min(heads, MOST_HEADS_TOGETHER) if call["causal"] else 1
    together = max((n for n in range(1, most + 1) if heads % n == 0), default=1)
    template = {name: config[name] for name in ("BLOCK_M", "BLOCK_N", "NUM_STAGES", "PROGRAMS")}
    return kiln.Launch(
        (together, kiln.cdiv(length, config["BLOCK_M"]), heads // together),
        template={**template, "D": head_size, "CAUSAL": call["causal"]},
        arguments={"length": length, "scale": head_size**-0.5},
        num_warps=config["num_warps"],
    )


def cost(call: Any) -> tuple[float, float]:
    heads, length, head_size = call["q"].shape
    return 4 * heads * length**2 * head_size / (2 if call["causal"] else 1), 4 * call["q"].nbytes


def reference(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """The same in NumPy, in double precision."""
    scores = np.einsum("hid,hjd->hij", q.astype(np.float64), k.astype(np.float64)) * q.shape[2] ** -0.5
    if causal:
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    out: Array = np.einsum("hij,hjd->hid", p / p.sum(axis=2, keepdims=True), v.astype(np.float64))
    return out


attention = kiln.register_op(
    "plain_attention",
    kernel=kernel,
    inputs=["q", "k", "v"],
    outputs=["out"],
    attributes={"causal": False},
    infer=infer,
    launch=launch,
    cost=cost,
    reference=reference,
    dtypes=["bf16", "f16", "f32"],
    tolerance={"f32": (1e-4, 1e-5), "f16": (2e-3, 2e-3), "bf16": (1.6e-2, 1e-2)},  # probabilities are rounded too
    examples=[[("bf16", (2, 130, 64))] * 3, ([("f32", (1, 77, 32))] * 3, {"causal": True})],
    tunables={
        "BLOCK_M": [128, 64],
        "BLOCK_N": [128, 64, 32],
        "NUM_STAGES": [2, 3],
        "num_warps": [8, 4],
        "PROGRAMS": [1, 2, 4],
    },
    constraints=["BLOCK_M == 16 * num_warps", "num_warps * PROGRAMS <= 16"],
)


def positive(text: str) -> int:
    """An argument of the command line that counts something."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=positive, default=2)
    parser.add_argument("--length", type=positive, help="257, or 4096 on a GPU")
    parser.add_argument("--head-size", type=int, default=64, choices=[16, 32, 64, 128])
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of tuning")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")
    arguments = parser.parse_args()
    gpu = not arguments.cpu and importlib.util.find_spec("torch") is not None and len(kiln.devices()) > 1
    heads, length = arguments.heads, arguments.length or (4096 if gpu else 257)

    random = np.random.default_rng(0)
    host = [random.standard_normal((heads, length, arguments.head_size), dtype=np.float32) for _ in range(3)]
    tensors: list[Any] = list(host)
    if gpu:
        import torch

        tensors = [torch.from_numpy(x).cuda().to(torch.bfloat16) for x in host]
        host = [x.float().cpu().numpy() for x in tensors]
    q, k, v = tensors
    print(f"{heads} heads, {length} queries and keys of {arguments.head_size}, causal: {arguments.causal}")

    result = attention(q, k, v, causal=arguments.causal)
    got = result.float().cpu().numpy() if gpu else result
    error = float(np.max(np.abs(got - reference(host[0], host[1], host[2], arguments.causal))))
    ok = error < (0.02 if gpu else 1e-4)
    print(f"against NumPy: largest error {error:.2g}: {'right' if ok else 'WRONG'}")

    table = kiln.autotune(attention, q, k, v, causal=arguments.causal, budget_s=arguments.budget, progress=True)
    print(table)
    timed = kiln.benchmark(attention, q, k, v, causal=arguments.causal)
    flops = 4 * heads * length * length * arguments.head_size / (2 if arguments.causal else 1)
    print(f"{timed.median_us:.1f} us, {flops / timed.median_us * 1e-6:.2f} TFLOP/s")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
