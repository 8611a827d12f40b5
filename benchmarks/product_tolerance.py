"""How far a product of normally distributed factors may be from the exact one, which torch has in f64."""

import torch

# What the sums may be off by, over the root of k: factors have a variance of 1. f32 sums of the tensor cores are cut off rather than rounded, those of fp8 to 14 bits.
SUM_ERROR = {"bf16": 2**-12, "f16": 2**-12, "tf32": 2**-7, "f32": 2**-15, "fp8e4m3": 2**-5, "i8": 0.0}
ROUNDING_ERROR = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 2**-24, torch.int32: 0.0}


def allowed_error(exact, precision, out_dtype, k):
    return exact.abs().mul_(ROUNDING_ERROR[out_dtype]).add_(SUM_ERROR[precision] * k**0.5)
