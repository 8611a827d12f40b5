"""include_direction.py finds what it is there to find, and nothing in a tree that keeps the rules."""

import pathlib
import tempfile
import unittest
import unittest.mock

import include_direction


class IncludeDirection(unittest.TestCase):
    def problems(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return include_direction.problems(root)

    def assert_problem(self, files: dict[str, str], *words: str) -> None:
        found = self.problems(files)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_downward_includes_pass(self):
        self.assertEqual(
            self.problems(
                {
                    "core/shape.hpp": "#include <vector>\n",
                    "compiler/compile_request.hpp": '#include "core/shape.hpp"\n',
                    "ops/op_spec.hpp": '#include "compiler/compile_request.hpp"\n',
                    "registry/dispatch.cpp": '#include "ops/op_spec.hpp"\n',
                    "runtime/cuda/driver.cpp": "#include <cuda.h>\n",
                    "tests/ops/op_test.cpp": '#include "registry/dispatch.cpp"\nauto kernel = R"(\n#include <cuda.h>\n)";\n',
                    "core/environment.cpp": 'auto* home = std::getenv("HOME");\n',
                    "core/comment.cpp": '// #include "ops/op_spec.hpp"\n/*\n#include <cuda.h>\n*/\n',
                }
            ),
            [],
        )

    def test_upward_include(self):
        self.assert_problem(
            {"core/a.hpp": '#include "ops/b.hpp"\n', "ops/b.hpp": ""}, "core/a.hpp", "core/ must not include ops/"
        )

    def test_siblings(self):
        self.assert_problem(
            {"compiler/a.cpp": '  #  include "runtime/b.hpp"\n', "runtime/b.hpp": ""},
            "compiler/ must not include runtime/",
        )

    def test_ops_do_not_compile(self):
        self.assert_problem(
            {"ops/a.cpp": '#include "compiler/compiler.hpp"\n', "compiler/compiler.hpp": ""}, "compiler/compiler.hpp"
        )

    def test_only_kernels_include_the_tile_language(self):
        tile_language = {"compiler/tl/math.hpp": ""}
        for kernel in ("kernel.hpp", "kernel_sm90.cuh"):
            self.assertEqual(
                self.problems({f"ops/a/{kernel}": '#include "compiler/tl/math.hpp"\n', **tile_language}), []
            )
        self.assert_problem(
            {"ops/a/launch.cpp": '#include "compiler/tl/math.hpp"\n', **tile_language}, "ops/a/launch.cpp"
        )

    def test_third_party_headers(self):
        self.assert_problem({"compiler/a.cpp": "#include <cuda.h>\n"}, "cuda.h", "runtime/cuda")
        self.assert_problem({"compiler/a.hpp": "#include <llvm/IR/Module.h>\n"}, "llvm/IR/Module.h")

    def test_relative_include(self):
        self.assert_problem({"core/a.hpp": '#include "b.hpp"\n', "core/b.hpp": ""}, '"b.hpp"', "relative to the root")

    FLOORS = {"registry": {"plan": set(), "dispatch": {"plan"}, "tuning": {"plan", "dispatch"}, ".": {"tuning"}}}

    @unittest.mock.patch.object(include_direction, "FLOORS", FLOORS)
    def test_floors(self):
        below = {"registry/plan/plan.hpp": '#include "core/a.hpp"\n', "core/a.hpp": "", "core/part/b.hpp": ""}
        above = {"registry/tuning/tuning.hpp": '#include "registry/plan/plan.hpp"\n', **below}
        top = {"registry/wiring.cpp": '#include "registry/tuning/tuning.hpp"\n', **above}
        self.assertEqual(self.problems(top), [])
        for includes, words in (
            ("registry/tuning/tuning.hpp", "registry/dispatch must not include registry/tuning"),
            ("registry/wiring.hpp", "registry/dispatch must not include registry/."),
        ):
            user = {"registry/dispatch/dispatch.cpp": f'#include "{includes}"\n', "registry/wiring.hpp": ""}
            self.assert_problem(above | user, "registry/dispatch/dispatch.cpp", words, f'"{includes}"')
        self.assert_problem({"registry/attic/a.hpp": ""}, "registry/attic/a.hpp", "plan, dispatch, tuning, .")

    def test_cycles(self):
        for name, files, way in (
            (
                "headers",
                {"core/a.hpp": '#include "core/b.hpp"\n', "core/b.hpp": '#include "core/a.hpp"\n'},
                "core/a -> core/b -> core/a",
            ),
            (
                "through a source, the shorter way",
                {
                    "core/a.hpp": "",
                    "core/a.cpp": '#include "core/a.hpp"\n#include "core/c.hpp"\n',
                    "core/b.hpp": '#include "core/a.hpp"\n',
                    "core/c.hpp": '#include "core/b.hpp"\n#include "core/a.hpp"\n',
                },
                "core/a -> core/c -> core/a",
            ),
            (
                "through a part of a component",
                {
                    "core/a.hpp": "",
                    "core/a_text.cpp": '#include "core/a.hpp"\n#include "core/b.hpp"\n',
                    "core/b.hpp": '#include "core/a.hpp"\n',
                },
                "core/a -> core/b -> core/a",
            ),
            (
                "of tests",
                {"tests/a/a.hpp": '#include "tests/b.hpp"\n', "tests/b.hpp": '#include "tests/a/a.hpp"\n'},
                "tests/a/a -> tests/b -> tests/a/a",
            ),
        ):
            with self.subTest(name):
                self.assert_problem(files, f"cycle of includes: {way}\n")
        self.assert_problem(
            {"core/a.cpp": '#include "core/b.hpp"\n', "core/a.hpp": "", "core/b.hpp": '#include "core/a.hpp"\n'},
            '\n    core/a.cpp: "core/b.hpp"\n    core/b.hpp: "core/a.hpp"',
        )

    def test_no_cycles(self):
        diamond = {f"core/{name}.hpp": '#include "core/a.hpp"\n' for name in ("b", "c", "a_text")}
        top = {"core/d.cpp": '#include "core/b.hpp"\n#include "core/c.hpp"\n', "core/d.hpp": "", "core/a.hpp": ""}
        self.assertEqual(self.problems(diamond | top), [])
        # A header of the same stem elsewhere is another component, and so is a source that continues a stem whose header it does not include.
        alike = {"core/part/d.hpp": '#include "core/d.hpp"\n', "core/d_text.cpp": '#include "core/part/d.hpp"\n'}
        self.assertEqual(self.problems(diamond | top | alike), [])

    def test_environment(self):
        self.assert_problem({"registry/a.cpp": 'auto* home = std::getenv("HOME");\n'}, "getenv")

    def test_numbers_by_locale(self):
        self.assert_problem({"autotune/a.cpp": "double a = std::strtod(text, nullptr);\n"}, "strtod", "from_chars")
        self.assert_problem({"cli/a.cpp": "double a = std::stod(text);\n"}, "stod")
        self.assertEqual(self.problems({"tests/cli/a_test.cpp": "double a = std::stod(text);\n"}), [])


if __name__ == "__main__":
    unittest.main()
