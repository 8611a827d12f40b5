#!/usr/bin/env python3
"""Makes an op of a product with weights of 4 bits, in groups of 128 with a scale and a zero, and checks it against NumPy.

The kernel is examples/int4_matmul.hpp. `pack` says how weights lie.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import kiln
import numpy as np

Array = np.ndarray[Any, Any]
GROUP = 128


def pack(weights: Array) -> Array:
    """Numbers of 0 to 15 [n, k] as bytes [n, k / 2]: 64 for a group, whose low halves are its first 64 weights."""
    halves = weights.astype(np.uint8).reshape(weights.shape[0], -1, 2, GROUP // 2)
    packed: Array = (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(weights.shape[0], -1)
    return packed


def unpack(packed: Array) -> Array:
    """The inverse of pack."""
    groups = packed.reshape(packed.shape[0], -1, GROUP // 2)
    return np.concatenate([groups & 15, groups >> 4], axis=2).reshape(packed.shape[0], -1)


def infer(inputs: Any) -> list[Any]:
    x, packed, scale, zero = (meta.shape for meta in inputs)
    m, k = x
    groups = (k // GROUP, packed[0])
    if k % GROUP or packed[1] * 2 != k or scale != groups or zero != groups:
        raise ValueError(
            f"x {x}, packed {packed}, scale {scale} and zero {zero} do not go together: expected (m, k) with k a "
            f"multiple of {GROUP}, (n, k / 2), (k / {GROUP}, n) and again (k / {GROUP}, n)"
        )
    return [(inputs[0].dtype, (m, packed[0]))]


def launch(call: Any, config: Any) -> kiln.Launch:
    (m, n), k = call["out"].shape, call["x"].shape[1]
    template = {name: config[name] for name in ("BLOCK_M", "BLOCK_N", "NUM_STAGES", "PROGRAMS")}
    grid = (kiln.cdiv(n, config["BLOCK_N"]), kiln.cdiv(m, config["BLOCK_M"]))
    return kiln.Launch(grid, template=template, arguments={"m": m, "n": n, "k": k}, num_warps=config["num_warps"])


def reference(x: Array, packed: Array, scale: Array, zero: Array) -> Array:
    each = [np.repeat(part.astype(np.float64).T, GROUP, axis=1) for part in (scale, zero)]
    product: Array = x.astype(np.float64) @ ((unpack(packed) - each[1]) * each[0]).T
    return product


int4_matmul = kiln.register_op(
    "int4_matmul",
    kernel=kiln.Kernel(pathlib.Path(__file__).with_name("int4_matmul.hpp"), grid=1),
    inputs=["x", kiln.Input("packed", dtypes=["u8"]), "scale", "zero"],
    outputs=["out"],
    infer=infer,
    launch=launch,
    cost=lambda call: (
        2 * call["out"].numel * call["x"].shape[1],
        sum(call[name].nbytes for name in ("x", "packed", "scale", "zero", "out")),
    ),
    reference=reference,
    dtypes=["bf16", "f16"],
    tunables={
        "BLOCK_M": [16, 32, 64],
        "BLOCK_N": [64, 32, 16, 128],
        "NUM_STAGES": [2, 3, 4],
        "num_warps": [4, 8, 2],
        "PROGRAMS": [1, 2],
    },
    constraints=["16 * num_warps <= BLOCK_M * BLOCK_N // 16", "BLOCK_M * BLOCK_N <= 4096"],
    # q - zero is rounded to the dtype before it is multiplied.
    tolerance={"bf16": (3e-2, 3e-2), "f16": (4e-3, 4e-3)},
    input_ranges=[(-1, 1), (0, 256), (0.005, 0.02), (6, 10)],
    examples=[[("f16", (5, 256)), ("u8", (70, 128)), ("f16", (2, 70)), ("f16", (2, 70))]],
)


def main() -> int:
    random = np.random.default_rng(0)
    m, n, k = 5, 70, 384
    x = random.standard_normal((m, k)).astype(np.float16)
    weights = random.integers(0, 16, (n, k))
    scale = random.uniform(0.01, 0.02, (k // GROUP, n)).astype(np.float16)
    zero = random.integers(6, 10, (k // GROUP, n)).astype(np.float16)
    packed = pack(weights)
    assert np.array_equal(unpack(packed), weights)
    error = float(np.max(np.abs(int4_matmul(x, packed, scale, zero) - reference(x, packed, scale, zero))))
    ok = error < 0.02
    print(f"{m} x {n} x {k} against NumPy: largest error {error:.2g}: {'right' if ok else 'WRONG'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
