#!/usr/bin/env python3
"""Writes a fused kernel, bias + GELU + dropout in one pass, checks it against NumPy, tunes it, and times it.

Runs on NumPy arrays; on a GPU where torch has one. The kernel is examples/bias_gelu_dropout.hpp.
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

fused = kiln.Kernel(
    pathlib.Path(__file__).with_name("bias_gelu_dropout.hpp"),
    doc="dropout(gelu(x + bias), p)",
    tunables={"BLOCK_SIZE": [256, 64, 128, 512, 1024, 2048], "num_warps": [4, 1, 2, 8]},
    constraints=["BLOCK_SIZE >= 32 * num_warps or num_warps == 4"],
    defaults={"cpu": {"BLOCK_SIZE": 256}, "cuda": {"BLOCK_SIZE": 1024}},
    grid=lambda meta: (meta.x.shape[0], kiln.cdiv(meta.columns, meta.BLOCK_SIZE)),
    not_tuned_for=["seed"],
)


def philox_uniform(seed: int, counters: Array) -> Array:
    """Four floats in [0, 1) for each counter, as the kernel draws them: shape (*counters.shape, 4)."""
    mask = np.uint64(0xFFFFFFFF)
    words = [counters & mask, counters >> np.uint64(32), np.zeros_like(counters), np.zeros_like(counters)]
    keys = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ keys[0],
            second & mask,
            (first >> np.uint64(32)) ^ words[3] ^ keys[1],
            first & mask,
        ]
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & mask, (keys[1] + np.uint64(0xBB67AE85)) & mask]
    drawn = np.stack(words, axis=-1)
    folded = np.where(drawn >= 0x80000000, drawn ^ mask, drawn)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


def reference(x: Array, bias: Array, p: float, seed: int) -> Array:
    """The same in NumPy, one op after the other."""
    h = x.astype(np.float32) + bias.astype(np.float32)
    gelu = 0.5 * h * (1 + np.tanh(np.float32(0.7978845608) * (h + np.float32(0.044715) * h**3)))
    rows, columns = x.shape
    blocks = np.arange(rows * -(-columns // 4), dtype=np.uint64).reshape(rows, -1)
    kept = philox_uniform(seed, blocks).reshape(rows, -1)[:, :columns] >= np.float32(p)
    return np.where(kept, gelu / np.float32(1 - p), 0).astype(x.dtype)


def on_gpu() -> bool:
    """Whether torch is there and sees a GPU."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available() and len(kiln.devices()) > 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=0, help="512, or 8192 on a GPU")
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of tuning")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")
    arguments = parser.parse_args()
    gpu = not arguments.cpu and on_gpu()
    rows, columns, p, seed = arguments.rows or (8192 if gpu else 512), arguments.columns, 0.1, 42

    random = np.random.default_rng(0)
    host_x = random.standard_normal((rows, columns), dtype=np.float32)
    host_bias = random.standard_normal(columns, dtype=np.float32)
    x: Any = host_x
    bias: Any = host_bias
    if gpu:
        import torch

        x, bias = torch.from_numpy(host_x).cuda(), torch.from_numpy(host_bias).cuda()
        out: Any = torch.full_like(x, float("nan"))
    else:
        out = np.full_like(host_x, np.nan)
    device = f"GPU ({kiln.devices()[1]['name']})" if gpu else "CPU"
    print(f"{fused.declaration}\non the {device}, {rows} x {columns}")

    fused(x, bias, out, columns=columns, p=p, seed=seed)
    result = out.cpu().numpy() if gpu else out
    right = reference(host_x, host_bias, p, seed)
    error = float(np.max(np.abs(result - right)))
    ok = error < 1e-5  # an element that only one of the two drops would be off by its whole value
    print(f"against NumPy: largest error {error:.2g}, {np.mean(result == 0):.1%} dropped: {'right' if ok else 'WRONG'}")

    table = kiln.autotune(
        fused, x, bias, out, columns=columns, p=p, seed=seed, budget_s=arguments.budget, progress=True
    )
    print(table)

    def separate(*_: object, **__: object) -> object:
        return kiln.ops.dropout(kiln.ops.gelu(kiln.ops.add(x, bias), approximate="tanh"), p=p, seed=seed)

    timed = kiln.benchmark(fused, x, bias, out, columns=columns, p=p, seed=seed, against=separate)
    alone = timed.against
    assert alone is not None
    print(f"fused:        {timed.median_us:9.1f} us, {2 * rows * columns * 4 / timed.median_us * 1e-3:.1f} GB/s")
    print(f"separate ops: {alone.median_us:9.1f} us (add, gelu, dropout)")
    print(f"the fused kernel is {alone.median_us / timed.median_us:.1f} times as fast")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
