"""A matrix product in Triton as its users write one: tiles in grouped order, a masked loop over k, the best of a dozen configs for each shape."""

import statistics

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# BLOCK_M, BLOCK_N, BLOCK_K, stages, warps
CONFIGS = [
    (128, 256, 64, 3, 8),
    (128, 256, 64, 4, 8),
    (256, 128, 64, 3, 8),
    (256, 128, 64, 4, 8),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 4, 8),
    (128, 128, 128, 3, 8),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 5, 4),
    (64, 64, 128, 4, 4),
    (32, 64, 128, 5, 4),
    (16, 64, 128, 5, 4),
    (16, 32, 256, 4, 4),
]

if triton:

    @triton.jit
    def matmul_kernel(
        a,
        b,
        out,
        m,
        n,
        k,
        a_batch,
        a_row,
        a_column,
        b_batch,
        b_row,
        b_column,
        out_batch,
        out_row,
        BLOCK_M: tl.constexpr,
        BLOCK_N: tl.constexpr,
        BLOCK_K: tl.constexpr,
        GROUP_M: tl.constexpr,
    ):
        program, batch = tl.program_id(0), tl.program_id(1)
        tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
        group = program // (GROUP_M * tiles_n)
        first_m = group * GROUP_M
        group_m = tl.minimum(tiles_m - first_m, GROUP_M)
        tile_m = first_m + program % (GROUP_M * tiles_n) % group_m
        tile_n = program % (GROUP_M * tiles_n) // group_m

        # Rows and columns past the edge are others read again, so that only k needs a mask.
        rows, columns = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        steps = tl.arange(0, BLOCK_K)
        a_tile = a + batch * a_batch + (rows % m)[:, None] * a_row + steps[None, :] * a_column
        b_tile = b + batch * b_batch + steps[:, None] * b_row + (columns % n)[None, :] * b_column
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            inside = steps < k - start
            sums = tl.dot(
                tl.load(a_tile, mask=inside[None, :], other=0.0), tl.load(b_tile, mask=inside[:, None], other=0.0), sums
            )
            a_tile += BLOCK_K * a_column
            b_tile += BLOCK_K * b_row
        out_tile = out + batch * out_batch + rows[:, None] * out_row + columns[None, :]
        tl.store(out_tile, sums.to(out.dtype.element_ty), mask=(rows < m)[:, None] & (columns < n)[None, :])


def product(config, a, b, out):
    """A function that writes a @ b into the contiguous `out`."""
    block_m, block_n, block_k, stages, warps = config
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    batches = a.shape[0] if a.dim() == 3 else 1

    def steps(tensor):
        return (tensor.stride(0) if tensor.dim() == 3 else 0, tensor.stride(-2), tensor.stride(-1))

    kernel = matmul_kernel[triton.cdiv(m, block_m) * triton.cdiv(n, block_n), batches]
    arguments = (a, b, out, m, n, k, *steps(a), *steps(b), *steps(out)[:2], block_m, block_n, block_k, 8)
    return lambda: kernel(*arguments, num_stages=stages, num_warps=warps)


def _compile(config, dtype_name):
    """Leaves the kernels of a config in Triton's cache on disk: both layouts, sizes that are multiples of 16 and others."""
    dtype = getattr(torch, dtype_name)
    for size in (64, 65):
        matrix = torch.zeros((size, size), dtype=dtype, device="cuda")
        for b in (matrix, matrix.T):
            try:
                product(config, matrix, b, torch.empty_like(matrix))()
            except Exception:  # whoever tunes meets the error again, and leaves the config out
                pass
    torch.cuda.synchronize()


def compilations(dtypes):
    """What leaves the kernels of all configs in Triton's cache: calls for triton_compilation.Compilation; none without Triton."""
    return [(_compile, config, str(dtype).removeprefix("torch.")) for dtype in dtypes for config in CONFIGS if triton]


def tuned(measure, a, b, out):
    """{name: call} of the config with the least median of what `measure` gives; nothing without Triton."""
    return fastest(measure, {config: product(config, a, b, out) for config in CONFIGS if triton})


def fastest(measure, calls):
    """{name: call} of the fastest of `calls`, which are by config; those that do not run are left out."""
    candidates = {}
    for config, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
        except Exception:  # more shared memory than there is, for one
            continue
        candidates[config] = call
    if not candidates:
        return {}
    times = measure(candidates)
    best = min(times, key=lambda config: statistics.median(times[config]))
    return {"x".join(map(str, best)): candidates[best]}
