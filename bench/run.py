"""Measures Fovea against its peers on this machine: ./fovea.sh bench [--quick] [--only PART ...] [--output DIR].

Each figure is a ratio of medians, the peer running in turns with ours. Markdown goes to standard output, and with a CSV
file a table to the folder of --output.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "5000"  # as fovea sets it; libgomp reads it when torch is loaded
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]


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


def finite(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return value


def existing(text):
    path = pathlib.Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"no such file or folder: '{text}'")
    return path


def built(text):
    path = existing(text)
    if not (path / "bin" / "roof").exists():
        raise argparse.ArgumentTypeError(f"'{text}' holds no build: no bin/roof in it; ./fovea.sh build makes build/release")
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
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds: about a quarter of the time")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="of " + ", ".join(PARTS))
    parser.add_argument("--profile", action="store_const", dest="only", const=["profile"], help="the same as --only profile: where the time of an update goes")
    parser.add_argument("--output", default=str(ROOT / "build" / "bench"), type=made_folder, metavar="DIR", help="folder of the tables [build/bench]")
    parser.add_argument("--build", default=str(ROOT / "build" / "release"), type=built, metavar="DIR", help="[build/release]")
    parser.add_argument("--threads", type=positive, default=2, help="[2]")
    parser.add_argument("--sizes", type=positive, nargs="+", metavar="N", help="sequence lengths of the parts sdpa [512 2048 8192 16384] and huggingface [2048 8192 32768]")
    parser.add_argument("--seconds", type=finite, default=1.0, help="of a comparison at least, five rounds in any case [1]")
    parser.add_argument("--bfloat16", action="store_true", help="the sdpa part in bfloat16 too, in a table of its own")
    parser.add_argument("--model", type=existing, metavar="DIR", help="the trained model whose queries and keys are taken; default: a small one, trained first")
    parser.add_argument("--corpus", nargs=2, type=existing, metavar="FILE", help="source and target text for training; default made up")
    parser.add_argument("--text", type=existing, metavar="FILE", help="text of the language and generation parts; default made up")
    parser.add_argument("--language-model", type=existing, metavar="DIR", help="the language model of bytes that generates; default: a small one, trained first")
    model = parser.add_argument_group("of the part huggingface")
    for name, more in HUGGINGFACE_OPTIONS.items():
        model.add_argument(f"--{name}", **more)
    given = parser.parse_args()
    if given.sizes and not {"sdpa", "huggingface"} & set(given.only):
        parser.error("--sizes is for the parts sdpa and huggingface, which --only leaves out")
    for name, part in (*((name, "huggingface") for name in HUGGINGFACE_OPTIONS), ("bfloat16", "sdpa"), ("model", "sdpa"), ("corpus", "training"), ("language-model", "generation")):
        if getattr(given, name.replace("-", "_")) and part not in given.only:
            parser.error(f"--{name} is for the part {part}, which --only leaves out")
    for name, default in HUGGINGFACE_DEFAULTS.items():
        if getattr(given, name) is None:
            setattr(given, name, default)
    if given.text and not {"language", "generation"} & set(given.only):
        parser.error("--text is for the parts language and generation, which --only leaves out")
    return given


def keep_memory():
    """Tunes malloc, so that nothing is given back to the system: what one side frees would be, in the other's time."""
    from eager_transformer import tune_malloc

    tune_malloc(keep=-1)


def work_folder(given):
    folder = given.output / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def trained_inputs(given):
    import training
    from inputs import Trained

    return Trained(given.model or training.trained_model(work_folder(given), given.threads))


def title_of(model):
    return f"queries and keys of a trained model's first layer, {model.heads} heads of {model.head_dim}"


def peers_part(given, report, _roof):
    """With malloc's own settings, as a program in PyTorch finds them, then with tuned ones, which cannot be taken back."""
    import attention

    rows = attention.against_others(given.quick, given.seconds, "its own")
    keep_memory()
    rows += attention.against_others(given.quick, given.seconds, "tuned")
    report.table("peers", "Attention against other implementations, normal inputs", rows)


def sdpa_part(given, report, roof):
    import attention
    import inputs

    sizes = given.sizes or ([512, 2048] if given.quick else [512, 2048, 8192, 16384])
    model = trained_inputs(given)
    model.inputs(max(sizes))  # what it refuses should cost no tables first
    title = "Attention against PyTorch's dense SDPA, "
    report.table("sdpa", title + "normal inputs", attention.against_sdpa(sizes, given, roof, inputs.normal))
    report.table("sdpa-trained", title + title_of(model), attention.against_sdpa(sizes, given, roof, model.inputs))
    if given.bfloat16:
        title += "both in bfloat16, normal inputs"
        report.table("sdpa-bfloat16", title, attention.against_sdpa(sizes, given, roof, inputs.bfloat16))


def kernels_part(given, report, roof):
    import attention
    import inputs

    rows = attention.against_sdpa([2048], given, roof, inputs.normal, attention.MORE_SPECS)
    report.table("kernels", "More mechanisms against PyTorch's dense SDPA, normal inputs", rows)


def flex_part(given, report, _roof):
    import attention

    rows = attention.against_flex(given.quick, given.seconds)
    report.table("flex", "Patterns against compiled FlexAttention, normal inputs", rows)


def spans_part(given, report, _roof):
    import spans

    title = "Adaptive span against its published algorithm in eager PyTorch, 8 heads of 64"
    report.table("spans", title, spans.rows(given.seconds))


def routing_part(given, report, _roof):
    import routing

    report.table("routing", "Routed attention, causal, 8 heads of 64, forward and backward with the commitment loss",
                 routing.against_others(given.quick, given.seconds))
    rows, slope = routing.by_length(given)
    title = f"Routed attention with as many clusters as tokens in a cluster: time grows as n^{slope:.2f}"
    report.table("routing-lengths", title, rows)


def distances_part(given, report, _roof):
    import distances

    rows = distances.against_transformer_xl(given.quick, given.seconds)
    report.table("transformer-xl", "Transformer-XL's attention against its published algorithm in eager PyTorch", rows)
    title = "Terms by distance, causal, 8 heads of 64, forward and backward, beside the same call without"
    report.table("distances", title, distances.cost_of_terms(given.quick, given.seconds))
    rows = distances.memory_of_terms(1024 if given.quick else 16384, given.threads)
    report.table("distances-memory", "Peak memory of terms by distance, causal, forward and backward", rows)


def memory_part(given, report, _roof):
    import attention

    rows = attention.memory(*((4096, 2048) if given.quick else (16384, 4096)), given.threads)
    report.table("memory", "Peak memory, forward and backward, normal inputs", rows)


def made_up_corpus(given):
    import training

    training.made_up_text(work_folder(given))
    return work_folder(given) / "source.txt", work_folder(given) / "target.txt"


def training_part(given, report, _roof):
    import training

    corpus = given.corpus or made_up_corpus(given)
    text = "the text given" if given.corpus else "made-up text"
    rows = training.training(work_folder(given), corpus, given.threads, given.quick)
    report.table("training", f"Training the Multi30k tiny model on {text}, against eager PyTorch", rows)


def decoding_part(given, report, _roof):
    import training

    training.make_untrained(work_folder(given), made_up_corpus(given))  # whose pieces are the words to translate
    rows = training.decoding(work_folder(given), given.threads, given.quick)
    report.table("decoding", "Decoding with the Multi30k tiny model, against eager PyTorch", rows)


def translators_part(peer):
    def part(given, report, _roof):
        import translators

        if why := translators.missing(peer):
            report.add(f"### {peer}: not measured\n\n{why}\n")
            return
        rows = translators.rows(peer, work_folder(given), given.threads, given.quick)
        report.table(peer, f"Translating with the same weights as {peer}, batches of {translators.BATCH['tiny']} and {translators.BATCH['base']} sentences", rows)
    return part


def language_text(given):
    return given.text or made_up_corpus(given)[0]


def language_part(given, report, roof):
    import language

    rows = language.training_rows(work_folder(given), language_text(given), given, roof)
    report.table("language", "Training a language model of bytes, 16,384 an update, against eager PyTorch", rows)


def profile_part(given, report, _roof):
    import profile_update

    report.table("profile", "The processor's time of an update of a language model of bytes, 16,384 an update, one thread",
                 profile_update.rows(given, measure_roof(given.build, 1)))


def generation_part(given, report, _roof):
    import language

    rows = language.generation_rows(work_folder(given), language_text(given), given, given.language_model)
    report.table("generation", "Generating 500 bytes after 100, greedy, against eager PyTorch", rows)


def steps_part(given, report, _roof):
    import decoder_steps

    report.table("steps", "A step of a whole language model of bytes over its caches, 4 layers of 256, 4 heads, against eager PyTorch in float32",
                 decoder_steps.rows(given))


def caches_part(given, report, _roof):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
    command = [sys.executable, ROOT / "bench" / "caches.py", "--threads", str(given.threads), "--seconds", str(given.seconds)]
    command += ["--quick"] if given.quick else []
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    report.table("caches", "A step of one layer over a cache, 8 heads of 64, float32: topk(32) with a copy of the keys in 8 bits, "
                 "against the faster of SDPA and two products; full over narrower caches", [json.loads(line) for line in done.stdout.splitlines()])


def crossover_part(given, report, _roof):
    import shortest

    found = []

    def rows():
        for row in shortest.rows(given, 512 if given.quick else 2048):
            found.append(row)
            yield shortest.shown(row)

    report.table("crossover", "The length from which a mechanism is faster than dense SDPA, 8 heads of 64, float32", rows())
    report.picture("crossover", shortest.picture(found, f"{processor()}, {given.threads} threads, 8 heads of 64, float32"),
                   "the shortest length from which each mechanism is faster than dense SDPA")


def huggingface_part(given, report, _roof):
    import huggingface
    import huggingface_attention
    import huggingface_memory

    given.lengths = given.sizes or ([2048] if given.quick else [2048, 8192, 32768])
    width = f"{given.layers} layers, width 512, 8 query and 2 key heads"
    whole, heads = f"a random Llama-like model of transformers, {width}", "8 query and 2 key heads of 64, causal"
    curves = {}
    rows = {
        "model": (f"Whole model against sdpa: {whole}", huggingface.model_rows),
        "attention": (f"Its attention alone: {heads}", huggingface_attention.attention_rows),
        "window": (f"A model with a sliding window, against sdpa: {whole}", huggingface.window_rows),
        "padded": (f"Two rows, one with an eighth of padding, against two without: {whole}", huggingface.padded_rows),
        "memory": (f"Peak memory of a step: {whole}", huggingface_memory.memory_rows),
        "grouped": (f"Grouped queries against repeated heads: {heads}", huggingface_attention.grouped_rows),
        "crossover": (f"The length from which forward and backward are faster than dense sdpa: {heads}",
                      lambda given: huggingface_attention.crossover_rows(given, curves))}
    for name in given.rows:
        report.table(f"huggingface-{name}", rows[name][0], rows[name][1](given))
    from plot import log_plot

    for dtype, points in curves.items():
        svg = log_plot(f"Forward and backward against dense sdpa, {dtype}", "tokens", "times faster", points)
        report.picture(f"huggingface-crossover-{dtype}", svg, f"times faster than dense sdpa by length, {dtype}")


HUGGINGFACE_ROWS = ["model", "attention", "window", "padded", "memory", "grouped", "crossover"]
HUGGINGFACE_TYPES = ["float32", "bfloat16"]
HUGGINGFACE_OPTIONS = {
    "rows": {"choices": HUGGINGFACE_ROWS, "nargs": "+", "metavar": "ROWS", "help": "some of its tables, of " + ", ".join(HUGGINGFACE_ROWS)},
    "types": {"choices": HUGGINGFACE_TYPES, "nargs": "+", "metavar": "TYPE", "help": "float32, bfloat16 [both]"},
    "layers": {"type": positive, "metavar": "N", "help": "of the model [8]"},
    "repetitions": {"type": positive, "metavar": "N", "help": "of each side at least [3]"},
    "once-above": {"type": finite, "metavar": "SECONDS", "help": "a side that takes longer is run once [20]"}}
HUGGINGFACE_DEFAULTS = {"rows": HUGGINGFACE_ROWS, "types": HUGGINGFACE_TYPES, "layers": 8, "repetitions": 3, "once_above": 20.0}

# The parts for --only, in the order of measuring: `peers` begins with malloc's own settings, which tuned ones replace
# for good.
PARTS = {"peers": peers_part, "sdpa": sdpa_part, "kernels": kernels_part, "flex": flex_part, "spans": spans_part,
         "routing": routing_part, "distances": distances_part, "memory": memory_part, "training": training_part, "decoding": decoding_part, "language": language_part,
         "profile": profile_part, "generation": generation_part, "steps": steps_part, "caches": caches_part, "crossover": crossover_part, "ctranslate2": translators_part("ctranslate2"), "marian": translators_part("marian"),
         "huggingface": huggingface_part}


def line_of(error):
    """A child's own last words where it was one that failed."""
    text = (error.stderr or "").strip() if isinstance(error, subprocess.CalledProcessError) else ""
    lines = (text or str(error) or repr(error)).splitlines()
    return lines[-1] if text else lines[0]


def measure(part, given, report, roof):
    """A part that fails costs no other its table."""
    try:
        PARTS[part](given, report, roof)
    except Exception as error:  # peers are other projects' code: anything may come of it
        report.failure(part, line_of(error))


def main():
    given = options()
    os.environ["FOVEA_LIBRARY"] = str(given.build.resolve() / "lib" / "libfovea_python.so")
    import torch

    import training
    from report import Report

    training.FOVEA = given.build.resolve() / "bin" / "fovea"
    torch.set_num_threads(given.threads)
    roof = measure_roof(given.build, given.threads)
    heading = (f"## {processor()}, {given.threads} threads, PyTorch {torch.__version__}\n\nRoof: float32 {roof['float32'] / 1e9:.0f} "
               f"GFLOP/s, bfloat16 {roof['bfloat16'] / 1e9:.0f}, screening {roof['screening'] / 1e9:.0f}, "
               f"memory {roof['bandwidth'] / 1e9:.1f} GB/s\n")
    report = Report(given.output, heading)
    for part in PARTS:
        if part != "peers":
            keep_memory()
        if part in given.only:
            measure(part, given, report, roof)
    return 1 if report.has_failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError, ImportError) as error:
        raise SystemExit(f"bench: {line_of(error)}") from None
