"""include_direction.py finds what it is there to find, and nothing in a tree that keeps the rules."""

import pathlib
import tempfile
import unittest

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
                    "runtime/cuda_driver.cpp": "#include <cuda.h>\n",
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
        self.assert_problem({"compiler/a.cpp": "#include <cuda.h>\n"}, "cuda.h", "runtime/cuda_")
        self.assert_problem({"compiler/a.hpp": "#include <llvm/IR/Module.h>\n"}, "llvm/IR/Module.h")

    def test_relative_include(self):
        self.assert_problem({"core/a.hpp": '#include "b.hpp"\n', "core/b.hpp": ""}, '"b.hpp"', "relative to the root")

    def test_environment(self):
        self.assert_problem({"registry/a.cpp": 'auto* home = std::getenv("HOME");\n'}, "getenv")


if __name__ == "__main__":
    unittest.main()
