# Written by scripts/generate_stubs from the registry.

from collections.abc import Sequence
from typing import Any, Protocol

from ._kiln import DType as DType
from ._kiln import Op

class Array(Protocol):
    """Anything with __dlpack__: arrays of NumPy, torch, CuPy, JAX, and kiln.Tensor."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

def abs(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def add(
    x: Array,
    y: Array | None = None,
    *,
    alpha: float = 1.0,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def add_relu(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def all(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def amax(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def amin(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def any(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def argmax(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def argmin(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def atan2(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def axpby(
    x: Array,
    y: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def bernoulli(
    *,
    size: Sequence[int],
    p: float = 0.5,
    seed: int,
    offset: int = 0,
    dtype: DType | str | Any = ...,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
    device: Any = None,
) -> Any: ...
def bitwise_and(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def bitwise_left_shift(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def bitwise_not(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def bitwise_or(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def bitwise_right_shift(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def bitwise_xor(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def cast(
    x: Array,
    *,
    dtype: DType | str | Any,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def ceil(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def clamp(
    x: Array,
    *,
    min: Any = None,
    max: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def concat(
    *tensors: Array,
    dim: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def copy(
    x: Array,
    *,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def cos(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def cumprod(
    x: Array,
    *,
    dim: int,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def cumsum(
    x: Array,
    *,
    dim: int,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def div(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def dropout(
    x: Array,
    *,
    p: float = 0.5,
    seed: int,
    offset: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def elu(
    x: Array,
    *,
    alpha: float = 1.0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def eq(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def erf(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def exp(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def exp2(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def expm1(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def fill(
    x: Array,
    *,
    value: Any,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def floor(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def floor_div(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def gather(
    x: Array,
    index: Array,
    *,
    dim: int,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def ge(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def gelu(
    x: Array,
    *,
    approximate: str = "none",
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def gt(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def index_select(
    x: Array,
    index: Array,
    *,
    dim: int,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def isclose(
    x: Array,
    y: Array | None = None,
    *,
    equal_nan: bool = False,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def isinf(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def isnan(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def kv_append(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slot_mapping: Array,
    *,
    layout: str = "NHD",
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def kv_append_layers(
    key: Array,
    value: Array,
    key_caches: Array,
    value_caches: Array,
    slot_mapping: Array,
    *,
    num_blocks: int,
    page: int,
    block_stride: int = 0,
    layout: str = "NHD",
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def kv_gather_paged(
    cache: Array,
    block_table: Array,
    seq_lens: Array,
    *,
    max_len: int,
    layout: str = "NHD",
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def kv_scatter(
    dst: Array,
    src: Array,
    indices: Array,
    counts: Array | None = None,
    slot_map: Array | None = None,
    *,
    max_sms: int = 0,
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    normalized_shape: Any = None,
    eps: float = 1e-05,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def le(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def leaky_relu(
    x: Array,
    *,
    negative_slope: float = 0.01,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    activation: str = "none",
    out_dtype: Any = None,
    precision: str = "ieee",
    num_sms: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def linear_relu(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    out_dtype: Any = None,
    precision: str = "ieee",
    num_sms: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def log(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def log1p(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def log2(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def log_softmax(
    x: Array,
    *,
    dim: int = -1,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def logical_and(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def logical_not(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def logical_or(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def logical_xor(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def logsumexp(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def lt(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def matmul(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out_dtype: Any = None,
    precision: str = "ieee",
    num_sms: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def max(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def maximum(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def mean(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def min(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def minimum(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def mul(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def mul_add(
    x: Array,
    y: Array,
    z: Array,
    *,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def ne(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def neg(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def norm(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    p: float = 2.0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def normal(
    *,
    size: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    seed: int,
    offset: int = 0,
    dtype: DType | str | Any = ...,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
    device: Any = None,
) -> Any: ...
def permute(
    x: Array,
    *,
    dims: Sequence[int],
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def pow(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def prod(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def randint(
    *,
    size: Sequence[int],
    low: int = 0,
    high: int,
    seed: int,
    offset: int = 0,
    dtype: DType | str | Any = ...,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
    device: Any = None,
) -> Any: ...
def reciprocal(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def relu(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def remainder(
    x: Array,
    y: Array | None = None,
    *,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def rms_norm(
    x: Array,
    weight: Array | None = None,
    residual: Array | None = None,
    *,
    normalized_shape: Any = None,
    eps: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def round(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def rsqrt(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def scaled_matmul(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    *,
    out_dtype: Any = None,
    num_sms: int = 0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def scatter_add(
    x: Array,
    index: Array,
    src: Array,
    *,
    dim: int,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def sigmoid(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def sign(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def silu(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def sin(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def softmax(
    x: Array,
    *,
    dim: int = -1,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def sparse_kv_gather(
    dst: Array,
    src: Array,
    indices: Array,
    counts: Array | None = None,
    slot_map: Array | None = None,
    *,
    max_sms: int = 0,
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def sqrt(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def std(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    correction: float = 1.0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def sub(
    x: Array,
    y: Array | None = None,
    *,
    alpha: float = 1.0,
    other: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def sum(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def swap_blocks(
    dst: Array,
    src: Array,
    block_mapping: Array,
    *,
    check_bounds: bool = False,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def tan(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def tanh(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def transpose(
    x: Array,
    *,
    dim0: int = -2,
    dim1: int = -1,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def trunc(x: Array, *, out: Any = None, stream: Any = None, config: Any = None, tuning: Any = None) -> Any: ...
def uniform(
    *,
    size: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    seed: int,
    offset: int = 0,
    dtype: DType | str | Any = ...,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
    device: Any = None,
) -> Any: ...
def var(
    x: Array,
    *,
    dim: Any = None,
    keepdim: bool = False,
    correction: float = 1.0,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def where(
    condition: Array,
    x: Array,
    y: Array,
    *,
    out: Any = None,
    stream: Any = None,
    config: Any = None,
    tuning: Any = None,
) -> Any: ...
def __getattr__(name: str) -> Op: ...
