#!/usr/bin/env python3
"""Makes an op of attention over keys and values in pages of 16, one query for each request, and checks it against NumPy.

The kernel is examples/paged_attention.hpp.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import kiln
import numpy as np

Array = np.ndarray[Any, Any]
PAGE = 16


def infer(inputs: Any) -> list[Any]:
    q, keys, values, table, lengths = (tuple(meta.shape) for meta in inputs)
    if len(q) != 3 or len(keys) != 4 or keys[1] != PAGE or keys[3] != q[2] or values != keys or q[1] % keys[2]:
        raise ValueError(
            f"q {q}, keys {keys} and values {values} do not go together: expected (requests, queries' heads, head "
            f"size) and twice (pages, {PAGE}, heads, head size), heads that divide the queries'"
        )
    if q[1] // keys[2] > 16 or table[:1] != q[:1] or lengths != q[:1]:
        raise ValueError(
            f"table {table} and lengths {lengths} are for {q[0]} requests, (requests, pages) and (requests,); at most "
            f"16 queries share a head, and these are {q[1] // keys[2]}"
        )
    return [(inputs[0].dtype, q)]


def launch(call: Any, config: Any) -> kiln.Launch:
    requests, query_heads, head_size = call["q"].shape
    heads = call["keys"].shape[2]
    return kiln.Launch(
        (heads, requests),
        template={"D": head_size, "GROUP": query_heads // heads, "NUM_STAGES": config["NUM_STAGES"]},
        arguments={"heads": heads, "most_pages": call["table"].shape[1], "scale": head_size**-0.5},
        num_warps=config["num_warps"],
    )


def cost(call: Any) -> tuple[float, float]:
    """Of requests that are as long as the table allows."""
    entries = call["table"].numel * PAGE * call["keys"].shape[2] * call["keys"].shape[3]
    group = call["q"].shape[1] // call["keys"].shape[2]
    moved = 2 * entries * call["keys"].dtype.itemsize + call["table"].nbytes + 2 * call["q"].nbytes
    return 4 * entries * group, moved


def reference(q: Array, keys: Array, values: Array, table: Array, lengths: Array) -> Array:
    out = np.empty(q.shape, np.float64)
    group = q.shape[1] // keys.shape[2]
    for request, length in enumerate(lengths):
        pages = table[request, : -(-length // PAGE)]
        k, v = (np.repeat(x[pages].reshape(-1, *x.shape[2:])[:length], group, axis=1) for x in (keys, values))
        scores = np.einsum("hd,jhd->hj", q[request].astype(np.float64), k.astype(np.float64)) * q.shape[2] ** -0.5
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[request] = np.einsum("hj,jhd->hd", p / p.sum(axis=1, keepdims=True), v.astype(np.float64))
    return out


paged_attention = kiln.register_op(
    "paged_attention",
    kernel=kiln.Kernel(pathlib.Path(__file__).with_name("paged_attention.hpp"), grid=1),
    inputs=[
        "q",
        "keys",
        "values",
        kiln.Input("table", dtypes=["i32"], selects=lambda call: range(call["keys"].shape[0])),
        kiln.Input("lengths", dtypes=["i32"], selects=lambda call: range(1, call["table"].shape[1] * PAGE + 1)),
    ],
    outputs=["out"],
    infer=infer,
    launch=launch,
    cost=cost,
    reference=reference,
    dtypes=["bf16", "f16"],
    tunables={"NUM_STAGES": [3, 2, 4, 6], "num_warps": [4, 1, 2]},
    tolerance={"bf16": (1.6e-2, 1e-2), "f16": (2e-3, 2e-3)},
    examples=[[("f16", (4, 8, 64)), *[("f16", (24, PAGE, 2, 64))] * 2, ("i32", (4, 4)), ("i32", (4,))]],
)


def main() -> int:
    random = np.random.default_rng(0)
    lengths = np.array([1, 16, 50, 33], np.int32)
    table = random.permutation(24)[:16].reshape(4, 4).astype(np.int32)
    q = random.standard_normal((4, 8, 64)).astype(np.float16)
    keys, values = (random.standard_normal((24, PAGE, 2, 64)).astype(np.float16) for _ in range(2))
    got = paged_attention(q, keys, values, table, lengths)
    error = float(np.max(np.abs(got - reference(q, keys, values, table, lengths))))
    ok = error < 0.01
    print(
        f"requests of {list(map(int, lengths))} against NumPy: largest error {error:.2g}: {'right' if ok else 'WRONG'}"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
