"""Measures Fovea against its peers on this machine: ./fovea.sh bench [--quick] [--only PART ...] [--output DIR].

Each figure is a ratio of medians, the peer running in turns with ours. Markdown goes to standard output, and with a CSV
file a table to the folder of --output.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
PARTS = ["sdpa", "peers", "flex", "memory", "training", "decoding"]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def measure_roof(build, threads):
    done = subprocess.run([build / "bin" / "roof", str(threads)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def existing(text):
    path = pathlib.Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"no such file or folder: '{text}'")
    return path


def made_folder(text):
    path = pathlib.Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot be made a folder: '{text}': {error.strerror}") from None
    return path


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds: a few minutes")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="of " + ", ".join(PARTS))
    parser.add_argument("--output", default="build/bench", type=made_folder, metavar="DIR", help="folder of the tables [build/bench]")
    parser.add_argument("--build", default=ROOT / "build" / "release", type=existing, metavar="DIR", help="[build/release]")
    parser.add_argument("--threads", type=positive, default=2, help="[2]")
    parser.add_argument("--sizes", type=positive, nargs="+", metavar="N", help="sequence lengths of the sdpa part [512 2048 8192 16384]")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a comparison at least, three rounds in any case [1]")
    parser.add_argument("--bfloat16", action="store_true", help="the sdpa part in bfloat16 too, in a table of its own")
    parser.add_argument("--model", type=existing, metavar="DIR", help="a trained model: its queries and keys, in a table of their own")
    parser.add_argument("--corpus", nargs=2, type=existing, metavar="FILE", help="source and target text for training; default made up")
    return parser.parse_args()


def keep_memory():
    """Tunes malloc, so that nothing is given back to the system: what one side frees would be, in the other's time."""
    from eager_transformer import tune_malloc

    tune_malloc(keep=-1)


def peers_part(given, report):
    """With malloc's own settings, as a program in PyTorch finds them, then with tuned ones, which cannot be taken back."""
    import attention

    rows = attention.against_others(given.quick, given.seconds, "its own")
    keep_memory()
    rows += attention.against_others(given.quick, given.seconds, "tuned")
    report.table("peers", "Attention against other implementations", rows)


def attention_parts(wanted, given, report, roof):
    import attention

    sizes = given.sizes or ([512, 2048] if given.quick else [512, 2048, 8192, 16384])
    if "sdpa" in wanted:
        if given.model:
            attention.trained_inputs(given.model, max(sizes))  # what it refuses should cost no tables first
        title = "Attention against PyTorch's dense SDPA, normal inputs"
        report.table("sdpa", title, attention.against_sdpa(sizes, given.seconds, roof, attention.normal_inputs))
        if given.bfloat16:
            title = "The same in bfloat16, PyTorch too"
            rows = attention.against_sdpa(sizes, given.seconds, roof, attention.bfloat16_inputs)
            report.table("sdpa-bfloat16", title, rows)
        if given.model:
            title = "The same on queries and keys of a trained model's first layer"
            rows = attention.against_sdpa(sizes, given.seconds, roof, lambda n: attention.trained_inputs(given.model, n))
            report.table("sdpa-trained", title, rows)
    if "flex" in wanted:
        report.table("flex", "Patterns against compiled FlexAttention", attention.against_flex(given.quick, given.seconds))
    if "memory" in wanted:
        n, peer_n = (4096, 2048) if given.quick else (16384, 4096)
        rows = attention.memory(attention.SPECS, n, peer_n, given.threads)
        report.table("memory", "Peak memory, forward and backward", rows)


def training_parts(wanted, given, report):
    import training

    folder = given.output / "work"
    folder.mkdir(parents=True, exist_ok=True)
    training.made_up_text(folder)
    training.FOVEA = given.build.resolve() / "bin" / "fovea"
    made_up = (folder / "source.txt", folder / "target.txt")
    if "training" in wanted:
        rows = training.training(folder, given.corpus or made_up, given.threads, given.quick)
        report.table("training", "Training the Multi30k tiny model", rows)
    if "decoding" in wanted:
        training.make_untrained(folder, made_up)  # whose pieces are the words to translate
        report.table("decoding", "Decoding with the Multi30k tiny model", training.decoding(folder, given.threads, given.quick))


def main():
    given = options()
    import torch

    from report import Report

    os.environ["FOVEA_LIBRARY"] = str(given.build.resolve() / "lib" / "libfovea_ops.so")
    torch.set_num_threads(given.threads)
    roof = measure_roof(given.build, given.threads)
    heading = (f"## {processor()}, {given.threads} threads, PyTorch {torch.__version__}\n\nRoof: float32 {roof['float32'] / 1e9:.0f} "
               f"GFLOP/s, bfloat16 {roof['bfloat16'] / 1e9:.0f}, screening {roof['screening'] / 1e9:.0f}, "
               f"memory {roof['bandwidth'] / 1e9:.1f} GB/s\n")
    report = Report(given.output, heading)
    if "peers" in given.only:
        peers_part(given, report)
    keep_memory()
    attention_parts(given.only, given, report, roof)
    if {"training", "decoding"} & set(given.only):
        training_parts(given.only, given, report)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        raise SystemExit(f"bench: {error}") from None
