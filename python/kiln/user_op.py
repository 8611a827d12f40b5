"""Ops of one's own: a spec written in Python around a kernel, with everything that the built-in ops have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _kiln
from .fingerprint import fingerprint
from .kernel import Kernel, check_constraint, check_tolerance, check_tunables
from .launch_meta import Call
from .op_definition import Launch, OpDefinition
from .op_input import Input

if TYPE_CHECKING:
    import numpy

_ALIASINGS = ("none", "elementwise", "first_input", "any")
_FLOATS = ("f64", "f32", "f16", "bf16")
_fingerprints: dict[str, str] = {}


def _variants(definition: OpDefinition, kernel: Any, launch: Any, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    what = definition.what
    if isinstance(kernel, Kernel):
        kernels: dict[str, Any] = {"": kernel}
    elif isinstance(kernel, Mapping) and kernel:
        kernels = dict(kernel)
    else:
        raise _kiln.UsageTypeError(
            f"{what}: kernel is {kernel!r}; expected a kiln.Kernel, or a dict of one for each of 'cpu' and 'cuda'"
        )
    made = []
    for target, item in kernels.items():
        if target not in ("", "cpu", "cuda"):
            raise _kiln.UsageValueError(f"{what}: kernel has {target!r}; targets are 'cpu' and 'cuda'")
        if not isinstance(item, Kernel):
            raise _kiln.UsageTypeError(f"{what}: the kernel for {target!r} is {item!r}; expected a kiln.Kernel")
        chosen = launch.get(target) if isinstance(launch, Mapping) else launch
        # Its op's name stands in every message about it.
        own = {**item.definition(), **changes, "name": definition.name, "grid": definition.grid(item)}
        made.append(
            {"name": target or "kernel", "target": target, "kernel": own, "launch": definition.launch(chosen, item)}
        )
    return made


def _sequence(value: Any, what: str, argument: str) -> list[Any]:
    """`value` as a list, where it is a sequence."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _kiln.UsageTypeError(f"{what}: {argument} is {value!r}; expected a list")
    return list(value)


def _example(example: Any, what: str) -> dict[str, Any]:
    """An example call: (inputs, attributes), inputs as (dtype, shape) pairs; or the inputs alone."""
    inputs, attributes, ranges = example, {}, ()
    if isinstance(example, Mapping):
        inputs, attributes = example.get("inputs", ()), example.get("attributes", {})
        ranges = example.get("ranges", ())
    elif isinstance(example, tuple) and len(example) == 2 and isinstance(example[1], Mapping):
        inputs, attributes = example
    try:
        metas = [(m.dtype, tuple(m.shape)) if hasattr(m, "shape") else (m[0], tuple(m[1])) for m in inputs]
    except (TypeError, IndexError):
        raise _kiln.UsageTypeError(
            f"{what}: an example is {example!r}; expected a list of (dtype, shape) pairs, or such a list and a dict of "
            "attributes"
        ) from None
    return {"inputs": metas, "attributes": dict(attributes), "ranges": _ranges(ranges, what, "an example's ranges")}


def _ranges(ranges: Any, what: str, argument: str) -> list[tuple[float, float]]:
    """Intervals of random inputs."""
    try:
        return [(float(low), float(high)) for low, high in _sequence(ranges, what, argument)]
    except (TypeError, ValueError):
        raise _kiln.UsageTypeError(f"{what}: {argument} is {ranges!r}; expected a list of (low, high) pairs") from None


def register_op(
    name: str,
    *,
    kernel: Kernel | Mapping[str, Kernel],
    inputs: Sequence[str | Input],
    outputs: Sequence[str] | str = (),
    attributes: Mapping[str, Any] | None = None,
    infer: Callable[..., Any] | str | None = None,
    launch: Callable[..., Launch] | Mapping[str, Callable[..., Launch]] | None = None,
    tunables: Mapping[str, Iterable[int]] | None = None,
    constraints: Sequence[Any] | None = None,
    default_config: Mapping[str, Any] | Callable[[Call], Mapping[str, int]] | None = None,
    cost: Callable[[Call], tuple[float, float]] | None = None,
    reference: Callable[..., numpy.ndarray[Any, Any] | Sequence[numpy.ndarray[Any, Any]] | None] | None = None,
    dtypes: Sequence[Any] = _FLOATS,
    tolerance: Any = None,
    examples: Sequence[Any] = (),
    input_ranges: Sequence[tuple[float, float]] = (),
    aliasing: str = "none",
    doc: str = "",
) -> _kiln.Op:
    """Registers an op for the whole process: kiln.ops has it, dispatch finds it by name, and kiln.autotune, kiln.check,
    kiln.benchmark and the command (``python -m kiln --load FILE.py``) work on it.

    A registered op is never changed. Registering the same definition again, as a notebook does, gives the op there is.

    Parameters
    ----------
    name : str
        Letters, digits, ``_``, ``.`` and ``:``.
    kernel : Kernel, or dict of one for each of "cpu" and "cuda"
        Its tunables, constraints and defaults are the op's, unless those are given here.
    inputs : sequence of str or Input
        The tensors it takes, in order. A kiln.Input says of one that it may be left out or is changed, and what its
        values select or point to.
    outputs : sequence of str
        The tensors it makes; none where it changes inputs (``Input(mutated=True)``).
    attributes : dict
        Defaults by name; the type of a default is the attribute's, and a type (``float``) in its place makes it
        required.
    infer : function, "like first input" or "like NAME"
        ``infer(inputs, **attributes)`` gives (dtype, shape) of each output, and raises for inputs that do not fit.
        By default the one output is like the first input.
    launch : function, optional
        ``launch(call, config)`` gives a kiln.Launch. By default parameters of the kernel are the op's tensors,
        attributes and tunables of the same names, ``n`` is the number of elements of the first result, and the grid is
        the kernel's.
    tunables, constraints : optional
        As kiln.Kernel has them.
    default_config : dict or function, optional
        Tunables until something is tuned: a dict, or ``default_config(call)``, which gives one; or a dict of such for
        each of ``"cpu"`` and ``"cuda"``. What is left out has its first value.
    cost : function, optional
        ``cost(call)`` gives (operations, bytes). By default each tensor's bytes once.
    reference : function, optional
        ``reference(*arrays, **attributes)`` gives the outputs, or the changed inputs, computed with NumPy.
    dtypes : sequence
        What inputs may be; ``f64``, ``f32``, ``f16`` and ``bf16`` unless given.
    tolerance : pair or dict, optional
        (relative, absolute) against the reference, for all dtypes or by dtype.
    examples : sequence, optional
        Calls for kiln.check and tests: lists of (dtype, shape), or pairs of such a list and a dict of attributes.
    input_ranges : sequence of pairs, optional
        The interval of random inputs, by input.
    aliasing : str
        "none": outputs may not overlap inputs. "elementwise": an output may be exactly an input. "first_input": the
        first output may be the first input. "any": the kernel's author answers for it.
    doc : str
        One line: the formula, what happens to NaN.

    Returns
    -------
    Op
        As ``kiln.op(name)``.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        Saying what is missing from the spec, or wrong with it.
    """
    definition = OpDefinition(name, doc, inputs, outputs)
    what = definition.what
    if aliasing not in _ALIASINGS:
        raise _kiln.UsageValueError(f"{what}: aliasing is {aliasing!r}; expected one of {', '.join(_ALIASINGS)}")
    changes: dict[str, Any] = {}
    if tunables is not None:
        changes["tunables"] = check_tunables(tunables, what)
    if constraints is not None:
        changes["constraints"] = [
            check_constraint(constraint, what) for constraint in _sequence(constraints, what, "constraints")
        ]
    if default_config is not None:
        changes |= definition.defaults(default_config)
    chosen_tolerance = check_tolerance(tolerance, what)
    whole: dict[str, Any] = {
        "name": name,
        "doc": doc or (inspect.getdoc(reference) or "").partition("\n")[0] or f"{name}, of the user's",
        "inputs": definition.input_dicts(),
        "outputs": definition.outputs,
        "attributes": definition.attribute_dicts(attributes),
        "dtypes": _sequence(dtypes, what, "dtypes"),
        "aliasing": aliasing,
        "infer": definition.infer(infer),
        "cost": definition.cost(cost),
        "reference": definition.reference(reference),
        "examples": [_example(example, what) for example in _sequence(examples, what, "examples")],
        "tolerance": chosen_tolerance or {dtype: _few_roundings(dtype) for dtype in _FLOATS},
        "input_ranges": _ranges(input_ranges, what, "input_ranges"),
        "variants": _variants(definition, kernel, launch, changes),
    }
    kernels = {"": kernel} if isinstance(kernel, Kernel) else dict(kernel)
    identity = fingerprint(
        {target: k.op_name for target, k in kernels.items()},
        [
            (i.name, i.doc, i.optional, i.mutated, i.pinned, [str(d) for d in i.dtypes], i.selects, i.points_to)
            for i in definition.inputs
        ],
        definition.outputs, [(a["name"], repr(a["default"]), a["required"]) for a in whole["attributes"]],
        infer, launch, tunables, list(constraints or ()), default_config, cost, reference, [str(d) for d in dtypes],
        chosen_tolerance, repr(examples), list(input_ranges), aliasing, doc,
    )  # fmt: skip
    if _fingerprints.get(name) == identity:
        return _kiln.op(name)
    _kiln.register_op(whole)
    _fingerprints[name] = identity
    return _kiln.op(name)


def _few_roundings(dtype: str) -> tuple[float, float]:
    """What results may be off by where nobody says: a few units in the last place."""
    return {"f64": (1e-12, 1e-12), "f32": (1e-5, 1e-6), "f16": (2e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}[dtype]
