"""Reports how Fovea's Python package does on a GPU, in less than ten minutes: values, gradients, tests, training, memory, times.

    python3 bench/cuda/run.py [--quick] [--parts mechanisms updates ...] [--minutes 9.5] [--output DIR]

Each part is a process of its own with a limit of time. After each, report.json and report.md in DIR (build/cuda/report)
hold what is known so far. The exit status is 1 if something disagrees or fails, 3 if a part did not end in its time, else
0. Nothing is fetched. The library of the package is --library, the one of a build, or it is built first, which takes a C++20
compiler, CMake and Ninja. Without a GPU, --device cpu and --device stand-in try the script itself.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from watching import Report, watch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "cuda"
RELEASE = ROOT / "build" / "release"
# The parts in their order, the most telling first: seconds that each may take, and its title.
PARTS = {
    "machine": (60, "The machine"),
    "mechanisms": (100, "Every mechanism and input beside the CPU: differences, of the norm"),
    "updates": (120, "Updates of the Multi30k model, 4 + 4 layers of 128: ms, and losses"),
    "memory": (40, "Memory of the reference, causal, 1 head of 64, forward and backward"),
    "others": (150, "FlexAttention and adasplash beside the reference in float64: differences, of the norm"),
    "suite": (150, "The package's tests on the device"),
    "oracle": (60, "Dense definitions in double: differences, of the norm"),
    "kernels": (60, "What each mechanism runs"),
    "times": (60, "bfloat16, 8 heads, against scaled_dot_product_attention"),
    "flex": (60, "bfloat16, 8 heads, forward, against compiled FlexAttention"),
    "peaks": (30, "Memory beyond the inputs, causal, bfloat16, 8 heads, forward and backward")}
# Packages, and what the report lacks without them.
NEEDS = {"triton": "FlexAttention cannot be compiled", "adasplash": "its outputs and gradients are not compared",
         "pytest": "of the package's tests only tests/device/package_test.py runs"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], metavar="PART",
                        help="[all, but the stand-in compiles no flex] of " + ", ".join(PARTS))
    parser.add_argument("--device", choices=("cuda", "cpu", "stand-in"), default="cuda",
                        help="stand-in: the library of the tests that refuses what a GPU refuses")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, which try the script")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all parts together [9.5]")
    parser.add_argument("--sizes", nargs="+", type=int, default=[2048, 16384], help="lengths of times, flex and peaks")
    parser.add_argument("--head-dims", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--seconds", type=float, default=0.1, help="of a comparison of times at least [0.1]")
    parser.add_argument("--library", type=pathlib.Path, metavar="FILE", help="libfovea_python.so")
    parser.add_argument("--program", type=pathlib.Path, metavar="FILE", help="the program fovea, for `updates` [that of build/release]")
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER / "report", metavar="DIR")
    given = parser.parse_args()
    given.parts = given.parts or [part for part in PARTS if part != "flex" or given.device != "stand-in"]
    if given.quick:
        given.sizes, given.head_dims, given.seconds = [128], [64], 0
    return given


def build():
    """The library alone, against this Python's torch. Its path, or None."""
    folder = subprocess.run([sys.executable, "-c", "import pathlib, torch; print(torch.utils.cmake_prefix_path); "
                             "print(pathlib.Path(torch.__file__).parent / 'include')"], capture_output=True, text=True)
    if folder.returncode:
        return None
    prefix, include = folder.stdout.split()
    for command in (["cmake", "-S", ROOT, "-B", FOLDER, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFOVEA_PACKAGE=ON",
                     f"-DTorch_DIR={prefix}/Torch", f"-DFOVEA_TORCH_INCLUDE={include}"],
                    ["cmake", "--build", FOLDER, "--target", "fovea_python", "--parallel", str(os.cpu_count() or 1)]):
        print("run.py:", *command, flush=True)
        if subprocess.run([str(part) for part in command], stdout=sys.stderr).returncode:
            return None
    return FOLDER / "lib" / "libfovea_python.so"


def loads(library):
    """Whether this Python's torch loads the library."""
    environment = {**os.environ, "FOVEA_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "python")}
    return library.is_file() and not subprocess.run([sys.executable, "-c", "import fovea"], env=environment,
                                                    capture_output=True).returncode


def library_of(given):
    named = given.library or (pathlib.Path(os.environ["FOVEA_LIBRARY"]) if os.environ.get("FOVEA_LIBRARY") else None)
    for path in [named] if named else [FOLDER / "lib" / "libfovea_python.so", RELEASE / "lib" / "libfovea_python.so"]:
        if loads(path):
            return path.resolve()
    if named:
        sys.exit(f"run.py: this Python's torch does not load '{named}'; build it against this torch, or leave it out")
    return build() or sys.exit("run.py: the package's library could not be built; the output of cmake is above")


def stand_in_of(given):
    if given.device != "stand-in":
        return ""
    path = pathlib.Path(os.environ.get("FOVEA_STAND_IN", RELEASE / "lib" / "libfovea_stand_in_device.so"))
    if not path.is_file():
        sys.exit(f"run.py: no stand-in: '{path}' is missing; ./fovea.sh build --all makes it")
    return str(path)


class Parts:
    """Starts each part as a process, with options that all of them share."""

    def __init__(self, given, library, stand_in):
        self.environment = {"GOMP_SPINCOUNT": "5000", **os.environ, "FOVEA_LIBRARY": str(library), "PYTHONUNBUFFERED": "1",
                            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(
                                [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])}
        if stand_in:
            self.environment["LD_PRELOAD"] = stand_in
        program = given.program or RELEASE / "bin" / "fovea"
        self.options = {"device": "cpu" if given.device == "cpu" else "cuda", "stand_in": stand_in, "quick": given.quick,
                        "torch_device": "cpu" if given.device == "cpu" else "cuda", "sizes": given.sizes,
                        "head_dims": given.head_dims, "seconds": given.seconds,
                        "program": str(program.resolve()) if program.is_file() else ""}

    def command(self, part, rows):
        return [sys.executable, str(pathlib.Path(__file__).with_name("part.py")), part, json.dumps(self.options), str(rows)]


def tell_missing(machine, given, parts):
    """One line; ends the program if there is no device."""
    row = machine["rows"][0] if machine["rows"] else None
    if row is None:
        sys.exit("run.py: missing here: a torch that this Python imports; pip install torch")
    if not row["found"]:
        sys.exit(f"run.py: missing here: a torch with CUDA and its device (torch {row['torch']} finds none); run this where "
                 "there is one, or try the script with --device cpu")
    missing = [f"{name} ({why})" for name, why in NEEDS.items() if not row[name] and (name != "triton" or given.device == "cuda")]
    if not parts.options["program"]:
        missing.append("the program fovea (`updates` trains with the package alone)")
    print("run.py: missing here: " + "; ".join(missing) if missing else "run.py: nothing is missing here", flush=True)
    return missing


def main():
    given = parse()
    print(f"run.py: {given.device}, {', '.join(given.parts)}; writing to {given.output}", flush=True)
    report = Report(given.output, {part: title for part, (_, title) in PARTS.items()}, given.minutes,
                    FOLDER / "work")
    stand_in = stand_in_of(given)
    # The machine comes first: without torch, nothing is built.
    machine = watch("machine", Parts(given, "", stand_in), PARTS["machine"][0], report)
    report.missing = tell_missing(machine, given, Parts(given, "", stand_in))
    parts = Parts(given, library_of(given), stand_in)
    for part in given.parts:
        if part != "machine":
            watch(part, parts, PARTS[part][0], report)
    print(report.markdown())
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
