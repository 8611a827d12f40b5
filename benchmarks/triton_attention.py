"""Attention in Triton as its tutorial has it: blocks of queries, a running maximum and total, causal calls in two loops, the best of two dozen configs for each shape."""

import torch
import triton_matmul

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# BLOCK_M, BLOCK_N, stages, warps
CONFIGS = [
    (block_m, block_n, stages, warps)
    for block_m in (64, 128)
    for block_n in (64, 128)
    for stages in (2, 3, 4)
    for warps in (4, 8)
]

if triton:

    @triton.jit
    def attend(
        queries,
        keys,
        values,
        sums,
        largest,
        total,
        rows,
        begin,
        end,
        length,
        scale,
        MASKED: tl.constexpr,
        CAUSAL: tl.constexpr,
        D: tl.constexpr,
        BLOCK_N: tl.constexpr,
    ):
        """Goes through keys from `begin` to `end`, of which only those that a query sees count where MASKED."""
        dims, steps = tl.arange(0, D), tl.arange(0, BLOCK_N)
        for start in range(begin, end, BLOCK_N):
            here = start + steps
            if MASKED:
                key = tl.load(keys + here[None, :] * D + dims[:, None], mask=here[None, :] < length, other=0.0)
            else:
                key = tl.load(keys + here[None, :] * D + dims[:, None])
            x = tl.dot(queries, key)
            if MASKED:
                seen = here[None, :] < length
                if CAUSAL:
                    seen = seen & (rows[:, None] >= here[None, :])
                x = tl.where(seen, x, -1.0e30)
            now_largest = tl.maximum(largest, tl.max(x, 1) * scale)
            p = tl.exp2(x * scale - now_largest[:, None])
            fade = tl.exp2(largest - now_largest)
            total = total * fade + tl.sum(p, 1)
            sums = sums * fade[:, None]
            if MASKED:
                value = tl.load(values + here[:, None] * D + dims[None, :], mask=here[:, None] < length, other=0.0)
            else:
                value = tl.load(values + here[:, None] * D + dims[None, :])
            sums = tl.dot(p.to(value.dtype), value, sums)
            largest = now_largest
        return sums, largest, total

    @triton.jit
    def attention_kernel(
        q,
        k,
        v,
        out,
        length,
        scale,
        CAUSAL: tl.constexpr,
        EVEN: tl.constexpr,
        D: tl.constexpr,
        BLOCK_M: tl.constexpr,
        BLOCK_N: tl.constexpr,
    ):
        first, head = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64) * length * D
        rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
        places = head + rows[:, None] * D + dims[None, :]
        if EVEN:
            queries = tl.load(q + places)
        else:
            queries = tl.load(q + places, mask=rows[:, None] < length, other=0.0)
        largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
        total, sums = tl.zeros((BLOCK_M,), tl.float32), tl.zeros((BLOCK_M, D), tl.float32)
        scale *= 1.44269504
        whole = (first if CAUSAL else length) // BLOCK_N * BLOCK_N
        sums, largest, total = attend(
            queries, k + head, v + head, sums, largest, total, rows, 0, whole, length, scale, False, CAUSAL, D, BLOCK_N
        )
        if CAUSAL or not EVEN:
            end = tl.minimum(first + BLOCK_M, length) if CAUSAL else length
            sums, largest, total = attend(
                queries,
                k + head,
                v + head,
                sums,
                largest,
                total,
                rows,
                whole,
                end,
                length,
                scale,
                True,
                CAUSAL,
                D,
                BLOCK_N,
            )
        result = (sums / total[:, None]).to(out.dtype.element_ty)
        if EVEN:
            tl.store(out + places, result)
        else:
            tl.store(out + places, result, mask=rows[:, None] < length)


def attention(config, q, k, v, out, is_causal):
    """A function that writes the attention of q, k and v [heads, length, D], contiguous, into `out`."""
    block_m, block_n, stages, warps = config
    heads, length, head_size = q.shape
    kernel = attention_kernel[triton.cdiv(length, block_m), heads]
    is_even = length % max(block_m, block_n) == 0
    arguments = (q, k, v, out, length, head_size**-0.5, is_causal, is_even, head_size, block_m, block_n)
    return lambda: kernel(*arguments, num_stages=stages, num_warps=warps)


def _compile(config, head_size, is_causal, is_even):
    """Leaves a config's kernel in Triton's cache on disk."""
    x = torch.zeros((2, 256 if is_even else 255, head_size), dtype=torch.bfloat16, device="cuda")
    try:
        attention(config, x, x, x, torch.empty_like(x), is_causal)()
    except Exception:  # whoever tunes meets the error again, and leaves the config out
        pass
    torch.cuda.synchronize()


def compilations(head_sizes, lengths_are_even):
    """What leaves the kernels of all configs in Triton's cache: calls for triton_compilation.Compilation; none without Triton."""
    return [
        (_compile, config, head_size, is_causal, is_even)
        for head_size in head_sizes
        for is_causal in (False, True)
        for is_even in lengths_are_even
        for config in CONFIGS
        if triton
    ]


def tuned(measure, q, k, v, out, is_causal):
    """{name: call} of the fastest config, as triton_matmul.tuned."""
    return triton_matmul.fastest(
        measure, {config: attention(config, q, k, v, out, is_causal) for config in CONFIGS if triton}
    )
