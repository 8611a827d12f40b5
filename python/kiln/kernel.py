"""Kernels of one's own: C++ tile kernels from a string or a file, launched with their own parameters."""

from __future__ import annotations

import os
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _kiln
from .fingerprint import fingerprint
from .launch_meta import Described, LaunchMeta, call_tensors, grid_extents

Grid = int | Sequence[int] | Callable[[LaunchMeta], int | Sequence[int]]
#: An expression over tunables ("BLOCK_SIZE >= 32 * num_warps"), or a function of the config, or both as a pair.
Constraint = str | Callable[[Mapping[str, int]], bool] | tuple[str, Callable[[Mapping[str, int]], bool]]

_LAUNCH_KEYWORDS = ("out", "stream", "config", "tuning", "grid")  # `out` is one of its op's
_TARGETS = ("cpu", "cuda")
_BUILTINS = {"abs": abs, "min": min, "max": max, "sum": sum}
_registering = threading.Lock()


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up: how many blocks of ``b`` elements cover ``a``."""
    return -(-a // b)


def read_source(
    source: str | os.PathLike[str], name: str | None, headers: Mapping[str, str] | None
) -> tuple[str, str, tuple[Any, ...]]:
    """(path, text, headers) of a kernel given as text or as a file's path."""
    is_text = isinstance(source, str) and ("\n" in source or "KILN_KERNEL" in source)
    if not isinstance(source, (str, os.PathLike)):
        raise _kiln.UsageTypeError(
            f"source is a {type(source).__name__}; expected the text of a kernel, or the path of its file"
        )
    if name is not None and not isinstance(name, str):
        raise _kiln.UsageTypeError(f"name is {name!r}; expected the kernel's name, a str, or None")
    if headers is not None and not (
        isinstance(headers, Mapping) and all(isinstance(part, str) for item in headers.items() for part in item)
    ):
        raise _kiln.UsageTypeError(f"headers is {headers!r}; expected a dict of texts by path")
    more = tuple((path, text, ()) for path, text in (headers or {}).items())
    if is_text:
        return (f"{(name or 'kernel').rpartition('::')[2]}.hpp", textwrap.dedent(str(source)), more)
    try:
        path, text, found = _kiln.read_kernel_source(os.fspath(source))
    except UnicodeDecodeError as error:
        raise _kiln.UsageValueError(
            f"{os.fspath(source)!r}, or a header that it includes, is not UTF-8 ({error.reason} at byte {error.start}); "
            "save it as UTF-8"
        ) from None
    return (path, text, (*more, *found))


def check_tunables(tunables: Mapping[str, Iterable[int]] | None, what: str) -> dict[str, list[int]]:
    """Tunables as a dict of lists of ints."""
    checked: dict[str, list[int]] = {}
    if tunables is not None and not isinstance(tunables, Mapping):
        raise _kiln.UsageTypeError(
            f"{what}: tunables is {tunables!r}; expected a dict such as {{'BLOCK_SIZE': [128, 256]}}"
        )
    for name, values in (tunables or {}).items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise _kiln.UsageTypeError(
                f"{what}: tunable {name!r} is {values!r}; expected a list of integers to choose from"
            )
        checked[name] = []
        for value in values:
            if not hasattr(value, "__index__"):
                raise _kiln.UsageTypeError(f"{what}: tunable {name!r} has the value {value!r}; values are integers")
            checked[name].append(value.__index__())
    return checked


def check_constraint(constraint: Constraint, what: str) -> tuple[str, Callable[[Mapping[str, int]], bool]]:
    """A constraint as its text and a function of the config."""
    if isinstance(constraint, tuple) and len(constraint) == 2 and isinstance(constraint[0], str):
        text, holds = constraint
        return text, lambda config: bool(holds(config))
    if isinstance(constraint, str):
        try:
            code = compile(constraint, "<constraint>", "eval")
        except SyntaxError as error:
            raise _kiln.UsageValueError(
                f"{what}: the constraint {constraint!r} is no expression: {error.msg}"
            ) from None

        def holds_for(config: Mapping[str, int]) -> bool:
            try:
                return bool(eval(code, {"__builtins__": _BUILTINS}, dict(config)))
            except Exception as error:
                raise _kiln.UsageValueError(
                    f"{what}: the constraint {constraint!r} cannot be computed for {dict(config)}: {error}"
                ) from None

        return constraint, holds_for
    if callable(constraint):
        name = getattr(constraint, "__name__", "")
        described = (constraint.__doc__ or "").strip() or ("" if name == "<lambda>" else name)
        return (described or "a constraint").splitlines()[0], lambda config: bool(constraint(config))
    raise _kiln.UsageTypeError(
        f"{what}: a constraint is {constraint!r}; expected an expression such as 'BLOCK_SIZE >= 32 * num_warps', or a "
        "function of the config"
    )


def check_defaults(defaults: Mapping[str, Any] | None, what: str) -> dict[str, dict[str, int]]:
    """Default tunables for each target, from a config or a dict of one for each target."""
    if defaults is None:
        return {target: {} for target in _TARGETS}
    if not isinstance(defaults, Mapping):
        raise _kiln.UsageTypeError(
            f"{what}: defaults is {defaults!r}; expected a dict such as {{'BLOCK_SIZE': 256}}, or one for each target: "
            "{'cpu': {...}, 'cuda': {...}}"
        )
    if defaults and all(isinstance(value, Mapping) for value in defaults.values()):
        unknown = sorted(set(defaults) - set(_TARGETS))
        if unknown:
            raise _kiln.UsageValueError(f"{what}: defaults has {unknown[0]!r}; targets are 'cpu' and 'cuda'")
        return {target: dict(defaults.get(target, {})) for target in _TARGETS}
    return {target: dict(defaults) for target in _TARGETS}


def check_strided(strided: bool | Sequence[str], pointers: Sequence[str], what: str) -> tuple[str, ...]:
    """Names of pointer parameters, sorted."""
    if isinstance(strided, bool):
        return tuple(sorted(pointers)) if strided else ()
    is_names = isinstance(strided, Iterable) and not isinstance(strided, str)
    if not is_names or not all(isinstance(name, str) for name in strided):
        raise _kiln.UsageTypeError(
            f"{what}: strided is {strided!r}; expected True, False, or names of its pointer parameters such as ['x']"
        )
    return tuple(sorted(strided))


def check_tolerance(tolerance: Any, what: str) -> dict[str, tuple[float, float]] | None:
    """Tolerances by dtype, from one pair for all floating dtypes or a dict of pairs."""
    if tolerance is None:
        return None
    try:
        if isinstance(tolerance, Mapping):
            return {_kiln.DType(dtype).name: (float(pair[0]), float(pair[1])) for dtype, pair in tolerance.items()}
        relative, absolute = tolerance
        return {dtype.name: (float(relative), float(absolute)) for dtype in _kiln.DType}
    except (TypeError, ValueError, IndexError) as error:
        raise _kiln.UsageTypeError(
            f"{what}: tolerance is {tolerance!r}; expected (relative, absolute), or a dict of such pairs by dtype"
        ) from error


class Kernel:
    """A kernel of one's own, called with its parameters in their order or by name.

    Tensors go to pointer parameters and are changed in place where the pointer is not const; numbers go to parameters
    that are passed by value; template parameters and tunables are keywords. A template type is that of the tensors
    whose pointers name it, unless it is given. The kernel is compiled for the device its tensors are on when a call
    first needs it, and kept on disk like the built-in ones.

    Tensors are passed as their address, so one that is not contiguous is refused. A kernel that uses strides takes them
    as numbers of its own and is declared with ``strided``.

    Parameters
    ----------
    source : str or path
        The kernel's text, or the path of a file that holds it. Headers that it includes with quotes are looked for
        beside it.
    name : str, optional
        Which of the kernels in it, where there are several.
    grid : int, tuple or function
        Programs along each axis; a function is given a LaunchMeta, which has every parameter, template parameter and
        tunable by name. Without one each call gives ``grid``.
    tunables : dict of lists of int, optional
        What kiln.autotune may choose: integer and boolean template parameters, numbers passed by value, ``num_warps``,
        and ``copy_warps`` (0, or 4 warps that copy for a program with a ``tl::chained_pipeline``; on sm_90a).
    constraints : sequence, optional
        Which tunables go together: expressions such as ``"BLOCK_SIZE >= 32 * num_warps"``, or functions of the config.
    defaults : dict, optional
        Tunables until something is tuned, or one such dict for each of ``"cpu"`` and ``"cuda"``. What it leaves out has
        its first value.
    doc : str, optional
        A line for people.
    headers : dict of str, optional
        Texts of more files that it includes, by path.
    strided : bool or sequence of str, optional
        Names of the pointer parameters whose tensors may have any strides, since calls pass these as numbers and the
        kernel uses them; True: all of them.
    not_tuned_for : sequence of str, optional
        Integers passed by value that do not decide which config is the fastest, such as a seed.
    tolerance : pair or dict, optional
        (relative, absolute): how far apart the results of two configs may be in a tuning. A few roundings by default.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        For a kernel that the source does not have, parameters that no call can give, tunables that are not its own.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        name: str | None = None,
        *,
        grid: Grid | None = None,
        tunables: Mapping[str, Iterable[int]] | None = None,
        constraints: Sequence[Constraint] = (),
        defaults: Mapping[str, Any] | None = None,
        doc: str | None = None,
        headers: Mapping[str, str] | None = None,
        strided: bool | Sequence[str] = False,
        not_tuned_for: Sequence[str] = (),
        tolerance: Any = None,
    ) -> None:
        self.source = read_source(source, name, headers)
        signature = _kiln.kernel_signature(self.source, name or "")
        if name is None and self.source[0] == "kernel.hpp":  # a text: messages name the file after its kernel
            self.source = (f"{signature['kernel'].rpartition('::')[2]}.hpp", *self.source[1:])
        #: The kernel's qualified name.
        self.name: str = signature["kernel"]
        what = f"kernel '{self.name}'"
        self._pointers = tuple(p[0] for p in signature["parameters"] if p[3])
        #: Names in order, and whether each is a pointer.
        self.parameters: tuple[tuple[str, bool], ...] = tuple((p[0], p[3]) for p in signature["parameters"])
        self._names = frozenset(p[0] for p in signature["parameters"])
        self.template_names = tuple(p[0] for p in signature["template_parameters"])
        #: What it declares, on one line.
        self.declaration = _declaration(signature)
        self.grid = grid
        self.tunables = check_tunables(tunables, what)
        self._tensor_places = [i for i, (_, is_pointer) in enumerate(self.parameters) if is_pointer]
        self._value_places = [(key, i) for i, (key, is_pointer) in enumerate(self.parameters) if not is_pointer]
        self._are_plain = not any(key in self.tunables for key, _ in self._value_places)
        self.constraints = tuple(check_constraint(constraint, what) for constraint in constraints)
        self.defaults = check_defaults(defaults, what)
        self.strided = check_strided(strided, self._pointers, what)
        self.not_tuned_for = tuple(not_tuned_for)
        self.tolerance = check_tolerance(tolerance, what)
        taken = [
            key for key in (*self.template_names, *self._names) if key in _LAUNCH_KEYWORDS and key not in self._pointers
        ]
        if taken:
            raise _kiln.UsageValueError(
                f"{what}: {taken[0]!r} is a keyword of every launch; give the parameter another name"
            )
        if grid is not None and not callable(grid):
            grid_extents(grid, f"{what}: grid")
        self.doc = doc or f"the kernel {self.name} of {self.source[0]}"
        self.__doc__ = f"{self.declaration}\n\n{self.doc}"
        identity = fingerprint(
            self.source,
            self.name,
            self.tunables,
            [text for text, _ in self.constraints],
            list(constraints),
            self.defaults,
            grid,
            self.strided,
            self.not_tuned_for,
            self.tolerance,
        )
        #: What its op is called in the registry, in tuning databases and in messages.
        self.op_name = f"{self.name}.{identity[:8]}"
        self._op: _kiln.Op | None = None
        _kiln.check_kernel(self.definition())

    def definition(self) -> dict[str, Any]:
        """The kernel as the extension module takes it."""
        return {
            "name": self.op_name,
            "doc": self.doc,
            "source": self.source,
            "kernel": self.name,
            "tunables": self.tunables,
            "constraints": list(self.constraints),
            "cpu_defaults": self.defaults["cpu"],
            "cuda_defaults": self.defaults["cuda"],
            "defaults_of_call": None,
            "grid": None if self.grid is None else self._make_grid(),
            "strided": list(self.strided),
            "not_tuned_for": list(self.not_tuned_for),
            "cost": None,
            "tolerance": self.tolerance,
        }

    def _make_grid(self) -> Callable[..., tuple[int, int, int]]:
        grid, pointers, what = self.grid, self._pointers, f"the grid of kernel '{self.name}'"
        if not callable(grid):
            extents = grid_extents(grid, what)
            return lambda inputs, outputs, attributes, config: extents

        def compute(
            inputs: Sequence[Described],
            outputs: Sequence[Described],
            attributes: dict[str, Any],
            config: dict[str, int],
        ) -> tuple[int, int, int]:
            tensors = dict(zip(pointers, call_tensors(pointers, inputs), strict=True))
            values = {key: value for key, value in attributes.items() if key != "grid"}
            return grid_extents(grid(LaunchMeta({**tensors, **values, **config})), what)

        return compute

    @property
    def op(self) -> _kiln.Op:
        """The op that launches it, registered when first asked for."""
        if self._op is None:
            with _registering:  # the same kernel may have been made before: a notebook's cell that runs twice
                try:
                    self._op = _kiln.op(self.op_name)
                except _kiln.UnknownOpError:
                    _kiln.register_kernel(self.definition())
                    self._op = _kiln.op(self.op_name)
        return self._op

    def call_of(self, *arguments: object, **named: Any) -> tuple[str, list[object], dict[str, Any]]:
        """The op, its tensors in order and its attributes, for a launch with these arguments."""
        tensors, attributes, config = self._sort(arguments, named)
        if config:
            raise _kiln.UsageValueError(
                f"kernel '{self.name}': {', '.join(config)} cannot be given here, where it is chosen; leave it out, or give config="
            )
        return self.op.name, tensors, attributes

    def _sort(
        self, arguments: tuple[object, ...], named: dict[str, Any]
    ) -> tuple[list[object], dict[str, Any], dict[str, Any]]:
        parameters = self.parameters
        if len(arguments) > len(parameters):
            raise _kiln.UsageTypeError(
                f"kernel '{self.name}' takes {len(parameters)} parameters ({', '.join(n for n, _ in parameters)}), got "
                f"{len(arguments)}; template parameters and tunables are keywords"
            )
        if len(arguments) == len(parameters) and not named and self._are_plain:  # the path of a hot loop
            tensors = [arguments[place] for place in self._tensor_places]
            attributes = {name: arguments[place] for name, place in self._value_places}
            for tensor in tensors:
                if tensor is None:
                    break
            else:
                return tensors, attributes, {}
        tensors, attributes = [], {}
        config: dict[str, Any] = {}
        for position, (name, is_pointer) in enumerate(parameters):
            if position < len(arguments):
                if name in named:
                    raise _kiln.UsageTypeError(f"kernel '{self.name}' got {name!r} by position and by name")
                value = arguments[position]
            elif name in named:
                value = named.pop(name)
            elif is_pointer:
                raise _kiln.UsageTypeError(f"kernel '{self.name}' lacks the tensor {name!r}: {self.declaration}")
            else:
                continue  # it has a default, or is tuned; if not, the dispatcher says what is missing
            if is_pointer:
                if value is None:
                    raise _kiln.UsageTypeError(
                        f"kernel '{self.name}': {name!r} is None, but the kernel takes a tensor there"
                    )
                tensors.append(value)
            elif name in self.tunables:
                config[name] = value
            else:
                attributes[name] = value
        for name, value in named.items():
            (config if name in self.tunables else attributes)[name] = value
        return tensors, attributes, config

    def __call__(
        self,
        *arguments: object,
        stream: object = None,
        config: Mapping[str, int] | str | None = None,
        tuning: str | None = None,
        grid: int | Sequence[int] | None = None,
        **named: Any,
    ) -> None:
        """Launches the kernel on its tensors' device.

        Tunables that are not given have the values that were tuned for such a call, else the defaults; where some are
        given, the others have the defaults. ``grid`` replaces the kernel's own for this call.

        Raises
        ------
        ValueError, TypeError
            For arguments that do not fit the kernel's declaration; nothing has run then.
        CompileError
            With the lines of the kernel's file.
        DeviceError
            When the launch fails.
        """
        tensors, attributes, given = self._sort(arguments, named)
        if given:
            if config is not None:
                raise _kiln.UsageTypeError(f"kernel '{self.name}' got tunables both by name and as config=")
            config = given
        if grid is not None:
            if callable(grid):
                raise _kiln.UsageTypeError(
                    f"kernel '{self.name}': grid= of a call is a number or a tuple; a function of tunables goes to kiln.Kernel(grid=...)"
                )
            attributes["grid"] = list(grid_extents(grid, f"kernel '{self.name}': grid"))
        op = self._op
        if op is None:
            op = self.op
        if stream is None and config is None and tuning is None:
            op(*tensors, **attributes)
        else:
            op(*tensors, stream=stream, config=config, tuning=tuning, **attributes)

    def __repr__(self) -> str:
        return f"<kiln.Kernel {self.declaration}>"


def _declaration(signature: Mapping[str, Any]) -> str:
    """ "scale<T, BLOCK_SIZE>(const T* x, T* out, tl::int64_t n)"."""
    template = ", ".join(
        name + (f" = {fallback}" if fallback else "") for name, _, fallback in signature["template_parameters"]
    )
    parameters = ", ".join(
        f"{type_} {name}" + (f" = {fallback}" if fallback else "")
        for name, type_, _, _, _, fallback in signature["parameters"]
    )
    return f"{signature['kernel']}<{template}>({parameters})"
