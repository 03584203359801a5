"""The Python package on a GPU: builds its library, compares it with the definitions, measures it, in a few minutes.

    python3 bench/cuda/run.py [--parts build kernels oracle times flex memory] [--sizes 2048 16384] [--output DIR]

Needs torch 2.11 to 2.13, a C++20 compiler, CMake and Ninja; nothing is fetched. --device cpu tries the script itself on a
machine without a GPU. Prints Markdown, writes it with a CSV file a table to DIR (build/cuda/report), and ends with status
1 where something disagrees or fails.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "cuda"
PARTS = ("build", "kernels", "oracle", "times", "flex", "memory")


def build():
    """The library alone, against this Python's torch."""
    import torch

    config = pathlib.Path(torch.utils.cmake_prefix_path) / "Torch"
    for command in (["cmake", "-S", ROOT, "-B", FOLDER, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFOVEA_PACKAGE=ON",
                     f"-DTorch_DIR={config}", f"-DFOVEA_TORCH_INCLUDE={pathlib.Path(torch.__file__).parent / 'include'}"],
                    ["cmake", "--build", FOLDER, "--target", "fovea_python", "--parallel", str(os.cpu_count() or 1)]):
        if subprocess.run([str(part) for part in command], stdout=sys.stderr).returncode:
            sys.exit(f"run.py: {command[0]} failed; its output is above")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sizes", nargs="+", type=int, default=[2048, 4096, 16384])
    parser.add_argument("--head-dims", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--seconds", type=float, default=0.3, help="of a comparison at least")
    parser.add_argument("--output", type=pathlib.Path, help="build/cuda/report without it")
    given = parser.parse_args()
    given.output = given.output or FOLDER / "report"
    if given.device == "cpu" and "memory" in given.parts:
        given.parts = [part for part in given.parts if part != "memory"]
        print("run.py: memory is read from the GPU, so this part is left out; bench/attention_memory.py reads a CPU's",
              file=sys.stderr)
    return given


def report_of(given):
    import torch

    from report import Report
    from tables import described, flex, kernels, memory, times
    from oracle import rows

    given.output.mkdir(parents=True, exist_ok=True)
    report = Report(given.output, described(given.device))
    tables = {"kernels": ("What each mechanism runs", lambda: kernels(given)),
              "oracle": ("Differences from the definitions, of the norm", lambda: rows(given.device)),
              "times": ("bfloat16, 8 heads, against scaled_dot_product_attention", lambda: times(given, torch.bfloat16)),
              "flex": ("bfloat16, 8 heads, forward, against compiled FlexAttention", lambda: flex(given, torch.bfloat16)),
              "memory": ("Memory beyond the inputs, causal, bfloat16, forward and backward",
                         lambda: memory(given, torch.bfloat16))}
    for part in given.parts:
        try:
            done = report.table(part, tables[part][0], tables[part][1]())
        except Exception as error:  # another part may work
            traceback.print_exc()
            report.failure(part, str(error).splitlines()[0])
            continue
        wrong = [row for row in done if row.get("agrees") == "NO"]
        if wrong:
            report.failure(part, f"{len(wrong)} of {len(done)} rows disagree with the definition")
    return report


def main():
    given = parse()
    import torch

    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("run.py: this torch finds no CUDA device; run it where there is one, or try the script with --device cpu")
    if "build" in given.parts:
        build()
        given.parts = [part for part in given.parts if part != "build"]
    built = FOLDER / "lib" / "libfovea_python.so"
    if built.is_file():
        os.environ.setdefault("FOVEA_LIBRARY", str(built))
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
    return 1 if report_of(given).has_failures else 0


if __name__ == "__main__":
    sys.exit(main())
