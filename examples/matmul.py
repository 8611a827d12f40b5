#!/usr/bin/env python3
"""Makes ops of matrix products in the tile language, checks them against NumPy, tunes one, and times it.

The kernels are examples/matmul.hpp, and in examples/matmul_rows.hpp the same with rows and columns that wrap around at
the end, and with rows by an index. Runs on NumPy arrays; on a GPU where torch has one.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
from typing import Any

import kiln
import numpy as np

HERE = pathlib.Path(__file__).parent


def config_for_gpu(call: Any) -> dict[str, int]:
    """Large tiles read operands least often, where there are as many of them as multiprocessors, nearly. Both kinds take
    192 KiB of shared memory."""
    if not call.arch.startswith("sm_90"):
        return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "NUM_STAGES": 3, "num_warps": 8}
    (m, n), bytes_of_one = call["out"].shape, call["a"].dtype.itemsize
    if kiln.cdiv(m, 128) * kiln.cdiv(n, 256) >= 0.9 * (call.processors or 132):
        return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128 // bytes_of_one, "NUM_STAGES": 4, "num_warps": 8}
    return {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": min(128, 256 // bytes_of_one), "NUM_STAGES": 4, "num_warps": 4}


#: Sums of a thread are 64 or 128 of them, and few where a tile is small; a warp has 16 rows or more. Along k 128 bytes
#: are best: 32 elements of f32, 64 of 16 bits, 128 of 8.
TUNING: dict[str, Any] = {
    "tunables": {
        "BLOCK_M": [128, 256, 64, 32, 16],
        "BLOCK_N": [256, 128, 64],
        "BLOCK_K": [64, 128, 32],
        "NUM_STAGES": [3, 4],
        "num_warps": [8, 4],
    },
    "constraints": [
        "1024 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps or BLOCK_M < 64 and BLOCK_N == 64",
        "BLOCK_M >= 16 * num_warps or BLOCK_M < 64 and num_warps == 4 and BLOCK_K == 128",
        "BLOCK_K * NUM_STAGES <= 512",
    ],
    "default_config": {
        "cpu": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4},
        "cuda": config_for_gpu,
    },
}
#: The same of programs that make a tile after the other: so many to each multiprocessor, or 0 for one to a tile.
TUNING_OF_TILES: dict[str, Any] = {
    "tunables": {**TUNING["tunables"], "PROGRAMS": [1, 0, 2]},
    "constraints": [
        *TUNING["constraints"],
        # Two find room where their shared memory and registers are half of what there is.
        "PROGRAMS < 2 or BLOCK_M * BLOCK_N <= 128 * 128 and (BLOCK_M + BLOCK_N) * BLOCK_K * NUM_STAGES <= 55296",
    ],
    "default_config": {**TUNING["default_config"], "cpu": {**TUNING["default_config"]["cpu"], "PROGRAMS": 0}},
}
RESULTS = {"fp8e4m3": "bf16", "fp8e5m2": "bf16", "i8": "i32", "u8": "i32"}


def infer(inputs: Any, b_along_k: bool = False) -> list[Any]:
    """[m, n] of a [m, k] and b [k, n], or [n, k]; `rows` in between are as many as the result's."""
    (m, k), (lines, others) = inputs[0].shape, inputs[-1].shape
    inner, n = (others, lines) if b_along_k else (lines, others)
    if inner != k:
        raise ValueError(f"a has {k} columns and b {inner} along k; expected as many")
    if len(inputs) == 3:
        m = inputs[1].shape[0]
    return [(RESULTS.get(inputs[0].dtype.name, inputs[0].dtype), (m, n))]


def processors(device: str) -> int:
    """Of the device, or of an H100 where it is not here."""
    return next((known["processors"] for known in kiln.devices() if known["device"] == device), 132)


def launch(call: Any, config: Any) -> kiln.Launch:
    (m, n), k = call["out"].shape, call["a"].shape[1]
    template = {name: config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_STAGES")}
    if "b_along_k" in call.attributes:
        template["B_ALONG_K"] = call["b_along_k"]
    programs = kiln.cdiv(m, config["BLOCK_M"]) * kiln.cdiv(n, config["BLOCK_N"])
    if config.get("PROGRAMS", 0) > 0:
        programs = min(programs, config["PROGRAMS"] * processors(call["out"].device))
    return kiln.Launch(programs, template=template, arguments={"m": m, "n": n, "k": k}, num_warps=config["num_warps"])


def cost(call: Any) -> tuple[float, float]:
    m, n = call["out"].shape
    k = call["a"].shape[1]
    return 2 * m * n * k, (m * k + n * k) * call["a"].dtype.itemsize + m * n * call["out"].dtype.itemsize


#: Sums of bf16 operands in another order, and one rounding.
TOLERANCE = {"f32": (1e-2, 1e-2), "f16": (2e-3, 2e-3), "bf16": (1.6e-2, 1e-2), "fp8e4m3": (1.6e-2, 1e-1), "i32": (0, 0)}
COMMON: dict[str, Any] = {"infer": infer, "launch": launch, "cost": cost, "tolerance": TOLERANCE, **TUNING}

matmul = kiln.register_op(
    "tile_matmul",
    kernel=kiln.Kernel(HERE / "matmul.hpp", grid=1),
    inputs=["a", "b"],
    outputs=["out"],
    attributes={"b_along_k": False},
    dtypes=["bf16", "f16", "f32", "fp8e4m3", "fp8e5m2", "i8", "u8"],
    reference=lambda a, b, b_along_k: a.astype(np.float64) @ (b.T if b_along_k else b).astype(np.float64),
    examples=[
        ([("bf16", (200, 72)), ("bf16", (72, 90))], {}),
        ([("f16", (33, 200)), ("f16", (65, 200))], {"b_along_k": True}),
    ],
    **{**COMMON, **TUNING_OF_TILES},
)
wrapped_matmul = kiln.register_op(
    "wrapped_matmul",
    kernel=kiln.Kernel(HERE / "matmul_rows.hpp", "wrapped_matmul", grid=1),
    inputs=["a", "b"],
    outputs=["out"],
    dtypes=["bf16", "f16"],
    reference=lambda a, b: a.astype(np.float64) @ b.astype(np.float64),
    examples=[[("bf16", (200, 72)), ("bf16", (72, 90))]],
    **COMMON,
)
matmul_of_rows = kiln.register_op(
    "matmul_of_rows",
    kernel=kiln.Kernel(HERE / "matmul_rows.hpp", "matmul_of_rows", grid=1),
    inputs=["a", kiln.Input("index", dtypes=["i32"], selects=lambda call: range(call["a"].shape[0])), "b"],
    outputs=["out"],
    dtypes=["bf16", "f16"],
    reference=lambda a, index, b: a[index].astype(np.float64) @ b.astype(np.float64),
    examples=[[("bf16", (50, 72)), ("i32", (200,)), ("bf16", (72, 90))]],
    **COMMON,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=0, help="of square matrices: 300, or 4096 on a GPU")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of tuning")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")
    arguments = parser.parse_args()
    gpu = not arguments.cpu and importlib.util.find_spec("torch") is not None and len(kiln.devices()) > 1
    size = arguments.size or (4096 if gpu else 300)

    random = np.random.default_rng(0)
    host = [random.standard_normal((size, size), dtype=np.float32) for _ in range(2)]
    tensors: list[Any] = list(host)
    if gpu:
        import torch

        tensors = [torch.from_numpy(x).cuda().to(torch.bfloat16) for x in host]
        host = [x.float().cpu().numpy() for x in tensors]
    result = matmul(*tensors)
    got = result.float().cpu().numpy() if gpu else result
    exact = host[0] @ host[1]
    error = float(np.max(np.abs(got - exact)) / np.max(np.abs(exact)))
    ok = error < (0.01 if gpu else 1e-5)
    print(f"{size}^3 against NumPy: largest error {error:.2g} of the largest: {'right' if ok else 'WRONG'}")
    print(kiln.autotune(matmul, *tensors, budget_s=arguments.budget, progress=True))
    timed = kiln.benchmark(matmul, *tensors, against="matmul")
    print(timed)
    print(f"{2 * size**3 / timed.median_us * 1e-6:.2f} TFLOP/s")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
