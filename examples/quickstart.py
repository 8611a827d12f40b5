#!/usr/bin/env python3
"""Kiln on NumPy arrays: ops by name, arrays in and arrays out, on the CPU.

python examples/quickstart.py
"""

import kiln
import numpy as np

random = np.random.default_rng(0)
x = random.standard_normal((1000, 256), dtype=np.float32)
weight = random.standard_normal((128, 256), dtype=np.float32)
bias = random.standard_normal(128, dtype=np.float32)

y = kiln.ops.linear_relu(x, weight, bias)  # compiled at the first call, then kept on disk
kiln.dispatch_gpu_op("mul", y, y, out=y)  # the same by name, into memory that is there

expected = np.maximum(x @ weight.T + bias, 0) ** 2
assert np.allclose(y, expected, rtol=1e-3, atol=1e-3)
print(f"{type(y).__name__} {y.dtype} {y.shape}, as NumPy's to {np.abs(y - expected).max():.1e}")
