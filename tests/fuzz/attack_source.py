"""Hostile kernel sources: each ends in an error that names what is wrong, or in a kernel, and never with the process.

Sources are compiled, and run only where they are known to touch nothing but their own arrays. A child process does it,
so that one that dies or hangs is seen: constructs nested and grown beyond all measure, globals and locals that need
what a kernel does not have, and a sound kernel whose text was mangled.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable

from attack import Attack

MOST_SECONDS = 60  # for one source; the deadline of a compile is far below

SOUND = """#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void scale(const T* x, T* out, tl::int64_t n, float alpha = 2.0f) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto values = tl::load(x + offsets, mask);
  tl::store(out + offsets, tl::cast<T>(values * alpha), mask);
}
"""


def kernel(body: str, before: str = "", result: str = "1") -> str:
    """Writes `result`, an expression of the body's names, into every element."""
    return f"""#include <kiln/tl.hpp>
namespace tl = kiln::tl;
{before}
template <int BLOCK_SIZE>
KILN_KERNEL void hostile(const float* x, float* out, tl::int64_t n) {{
  {body}
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::store(out + offsets, tl::full<float, BLOCK_SIZE>(static_cast<float>({result})), offsets < n);
}}
"""


def nested(draw: random.Random) -> str:
    depth = draw.choice([10, 100, 300, 1_000, 10_000, 100_000])
    begin, end = draw.choice(
        [
            ("-", ""),
            ("!", ""),
            ("~", ""),
            ("(", ")"),
            ("+ -", ""),
            ("(1 ? ", " : 0)"),
            ("1 + (", ")"),
            ("(int)", ""),
            ("sizeof ", ""),
            ("1 + ", ""),
            ("true ? 1 : ", ""),
        ]
    )
    return kernel(f"int v = {begin * depth}1{end * depth};", result="v == v")


def nested_declarations(draw: random.Random) -> str:
    depth = draw.choice([10, 100, 1_000, 10_000, 50_000])
    begin, end = draw.choice(
        [
            ("namespace a { ", "}"),
            ("struct S { ", "};"),
            ("template <typename T> struct W; inline int f() { auto g = [] { ", "}; return 0; }"),
            ("inline void h() { if (true) { ", "} }"),
            ("#if 1\n", "#endif\n"),
            ("template <template <", "> class C> struct T;"),
        ]
    )
    return kernel("", before=begin * depth + end * depth)


def nested_types(draw: random.Random) -> str:
    depth = draw.choice([10, 100, 1_000, 5_000])
    stars = draw.choice(["*", "(*)()", "[1]"])
    return kernel(
        "",
        before=f"using Deep = int{'*' * depth if stars == '*' else ''};\n"
        + "".join(
            f"template <typename T> struct B{i} {{ using type = typename B{i + 1}<T{'*' if stars == '*' else ''}>::type; }};\n"
            for i in reversed(range(min(depth, 400)))
        ),
    )


def recursive_templates(draw: random.Random) -> str:
    return kernel(
        "",
        before=draw.choice(
            [
                "template <int N> struct F { static constexpr int v = F<N - 1>::v + F<N - 2>::v; };"
                "template <> struct F<0> { static constexpr int v = 0; }; template <> struct F<1> { static constexpr int v = 1; };",
                "template <int N, int M> struct F { static constexpr int v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };"
                "template <int M> struct F<0, M> { static constexpr int v = M; };",
                "template <typename T> struct F { static constexpr int v = F<F<T>>::v; };",
                "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); } template <int N, int M = 0> struct F { static constexpr int v = f(N); };",
                "constexpr int f(int n) { int s = 0; while (n > 0) ++s; return s; } template <int N, int M = 0> struct F { static constexpr int v = f(N); };",
            ]
        ),
        result=draw.choice(["F<25, 0>::v >= 0", "F<900, 0>::v >= 0", "F<40, 0>::v >= 0"]).replace(
            ", 0", draw.choice(["", ", 0"])
        ),
    )


def growing_macros(draw: random.Random) -> str:
    depth = draw.choice([4, 10, 20, 40])
    lines = ["#define X0 1 +"] + [f"#define X{i} X{i - 1} X{i - 1}" for i in range(1, depth + 1)]
    return kernel(f"int v = X{depth} 0;", before="\n".join(lines), result="v > 0")


def locals_without_room(draw: random.Random) -> str:
    size = draw.choice([100, 10_000, 1_000_000, 10_000_000, 1_000_000_000, 10**13])
    align = draw.choice([1, 16, 64, 256, 4096, 1 << 16, 1 << 28])
    return kernel(
        f"alignas({align}) volatile char a[{size}]; for (tl::int64_t i = 0; i < {size}; i += 1000) a[i] = 1; a[0] = 1;",
        result="a[0]",
    )


def globals_that_need_running(draw: random.Random) -> str:
    return kernel(
        draw.choice(["", "static int inner = f(static_cast<int>(n)) - static_cast<int>(n) + 0 * outer;"]),
        before=draw.choice(
            [
                "inline int f(int n = 0) { volatile int one = 1; return n + one; } static int outer = f();",
                "struct S { int v; S() { volatile int one = 1; v = one; } ~S() {} }; static S s; inline int f(int n = 0) { return n + s.v; } static int outer = f();",
                "inline int f(int n = 0) { return n + 1; } static const int outer = f();",
                "inline int f(int n = 0) { return n + 1; } thread_local int outer = f();",
                "constexpr int f(int n = 0) { return n + 1; } constinit int outer = f();",
            ]
        ),
        result="outer",
    )


def words_out_of_place(draw: random.Random) -> str:
    return draw.choice(
        [
            '#include "/etc/passwd"\n' + SOUND,
            "#include __FILE__\n" + SOUND,
            "#include <kiln/tl.hpp>\n" * 1000 + SOUND,
            '#pragma GCC error "no"\n' + SOUND,
            '__asm__(".globl x\\n.byte " ' + '"1,"' * 1000 + '"1");\n' + SOUND,
            "\ufeff" + SOUND,
            SOUND.replace(" ", " "),
            SOUND.replace("\n", "\r"),
            SOUND.replace("\n", "\r\n"),
            SOUND + "\0" + SOUND,
            SOUND + "/*",
            SOUND + 'R"(',
            SOUND.replace("scale", "s" * 100_000),
            SOUND + "//" + "\\\n" * 10_000,
            SOUND + "".join(f"static const int c{i} = {i};\n" for i in range(20_000)),
            kernel("int v[] = {" + "1," * 100_000 + "};", result="v[0]"),
            kernel("switch (n) {" + "".join(f"case {i}: break;" for i in range(20_000)) + "}"),
            kernel("if (n == 0) {} " + "".join(f"else if (n == {i}) {{}} " for i in range(1, 5_000))),
            "#define KILN_KERNEL\n" + SOUND,
            "#define void int\n" + SOUND,
            '#line 1 "\033[31mred"\n#error x\n' + SOUND,
            "",
        ]
    )


def mangled(draw: random.Random) -> str:
    tokens = re.findall(r"\w+|\s+|.", SOUND)
    for _ in range(draw.randrange(1, 8)):
        at = draw.randrange(len(tokens))
        change = draw.randrange(4)
        if change == 0:
            del tokens[at]
        elif change == 1:
            tokens.insert(at, draw.choice(tokens))
        elif change == 2:
            tokens[at] = draw.choice(tokens)
        else:
            tokens[at:at] = tokens[draw.randrange(len(tokens)) :][: draw.randrange(20)]
    return "".join(tokens)


KINDS: list[tuple[Callable[[random.Random], str], bool]] = [  # and whether it may be run
    (nested, True),
    (nested_declarations, True),
    (nested_types, True),
    (recursive_templates, True),
    (growing_macros, True),
    (locals_without_room, True),
    (globals_that_need_running, True),
    (words_out_of_place, False),
    (mangled, False),
]


def try_source(draw: random.Random) -> str:
    """In the child: the source is compiled, and run where that is safe. "error", or what went wrong."""
    import kiln
    import numpy

    make, may_run = draw.choice(KINDS)
    source = make(draw)
    x, out = numpy.ones(100, numpy.float32), numpy.full(100, -1, numpy.float32)
    try:
        tried = kiln.Kernel(source, grid=2, tunables={"BLOCK_SIZE": [64]})
        arguments = [x, out, 100][: len(tried.signature.parameters) if hasattr(tried, "signature") else 3]
        if may_run:
            tried(*arguments)
        else:
            kiln.inspect(tried, *arguments, emit="asm")
    except (kiln.CompileError, ValueError, TypeError, NotImplementedError) as error:
        text = str(error)
        if any(character < " " and character not in "\n\t" for character in text):
            return f"{make.__name__}: an error with control characters: {text!r}"
        return "error" if text.strip() else f"{make.__name__}: an error that says nothing"
    if may_run and not (out == 1).all():
        return f"{make.__name__}: ran, and gave {out[:3]} instead of 1"
    return "kernel"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        seed, case = int(sys.argv[2]), int(sys.argv[3])
        print(try_source(random.Random(seed * 1_000_003 + case)))
        return
    attack = Attack(__doc__ or "")
    counts = {"error": 0, "kernel": 0}
    for case in attack.cases():
        # Bounds of compiles, low enough to be met.
        environment = {**os.environ, "KILN_COMPILE_TIMEOUT": "10"}
        command = [sys.executable, __file__, "--child", str(attack.options.seed), str(case)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            attack.fail(case, f"no end after {MOST_SECONDS} s")
        if done.returncode != 0:
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
            attack.fail(case, f"the process ended: {how}; {done.stderr[-2000:]}")
        outcome = done.stdout.strip()
        if outcome not in counts:
            attack.fail(case, outcome)
        counts[outcome] += 1
    attack.finish(errors=counts["error"], kernels=counts["kernel"])


if __name__ == "__main__":
    main()
