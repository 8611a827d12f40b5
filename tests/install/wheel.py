"""Builds the wheel, installs it into an empty environment away from the sources, and uses it.

usage: wheel.py SOURCE BUILD OUTPUT

BUILD is the build folder of the wheel, kept between runs; OUTPUT takes the wheel and the environment. The interpreter that runs this has
scikit-build-core and pybind11; nothing is downloaded.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

CHECK = """
import importlib.metadata, importlib.util, pathlib, sys
import kiln, numpy as np
assert importlib.util.find_spec("kiln").origin.startswith(sys.prefix), kiln.__file__
assert importlib.metadata.version("kiln") == kiln.__version__
x = np.linspace(-1, 1, 1000, dtype=np.float32)
assert (kiln.ops.add(x, x) == x + x).all()
assert (kiln.dispatch_gpu_op("relu", x) == np.maximum(x, 0)).all()
maps = pathlib.Path("/proc/self/maps").read_text()
package = str(pathlib.Path(kiln.__file__).parent)
for name in ("libkiln.so", "libkiln-clang.so", "libkiln-orc.so", "libfmt.so"):
    loaded = {line.split()[-1] for line in maps.splitlines() if "/" + name in line}
    assert loaded and all(path.startswith(package) for path in loaded), (name, loaded)
print("wheel:", kiln.__version__, package)
"""
# Found in the package; what else a wheel needs comes with the system.
FROM_THE_SYSTEM = (
    "linux-vdso",
    "/lib64/ld-linux",
    "libc.",
    "libm.",
    "libgcc_s.",
    "libstdc++.",
    "libz.",
    "libdl.",
    "libpthread.",
    "librt.",
)


def run(*command: str | pathlib.Path, **options: object) -> str:
    print("$", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    print(done.stdout[-8000:], flush=True)
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}")
    return done.stdout


def build_wheel(source: pathlib.Path, build: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
    ]
    run(*pip, f"-Cbuild-dir={build}", "--wheel-dir", output, source)
    (wheel,) = output.glob("kiln-*.whl")
    return wheel


def check_contents(wheel: pathlib.Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    print(*names, f"{wheel.stat().st_size / 2**20:.1f} MiB", sep="\n")
    for name in (
        "kiln/__init__.py",
        "kiln/py.typed",
        "kiln/_kiln.pyi",
        "kiln/ops.pyi",
        "kiln/experiments/kv_series.cuh",
        "kiln/lib/libkiln.so",
        "kiln/lib/libkiln-clang.so",
    ):
        if name not in names:
            sys.exit(f"the wheel lacks {name}")
    strangers = [name for name in names if not name.startswith(("kiln/", "kiln-"))]
    if strangers:
        sys.exit(f"the wheel holds what is not the package's: {strangers}")


def check_libraries(package: pathlib.Path) -> None:
    for library in [*package.glob("_kiln*.so"), *package.glob("lib/*.so*")]:
        for line in run("ldd", library).splitlines():
            name, _, found = line.strip().partition(" => ")
            if not name.startswith(FROM_THE_SYSTEM) and not found.startswith(str(package)):
                sys.exit(f"{library.name} takes {line.strip()} from outside the wheel")


def main() -> int:
    source, build, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    wheel = build_wheel(source, build, output)
    check_contents(wheel)

    environment = output / "environment"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    # NumPy, which the wheel asks for, is taken from the environment that this runs in: nothing is downloaded.
    (site / "numpy_of_the_build.pth").write_text(sysconfig.get_path("platlib") + "\n")
    check_libraries(site / "kiln")

    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("KILN_")}
    clean["KILN_CACHE_DIR"] = str(output / "cache")
    run(python, "-c", CHECK, cwd=output, env=clean)
    kiln = environment / "bin/kiln"
    run(
        kiln, "run", "add", "--shape", "100x100", "--dtype", "bf16", "--device", "cpu", "--check", cwd=output, env=clean
    )
    run(kiln, "--version", cwd=output, env=clean)
    run(
        kiln,
        "experiment",
        "gather",
        "--device",
        "cpu",
        "--bs",
        "4",
        "--topk",
        "64",
        "--iters",
        "2",
        cwd=output,
        env=clean,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
