"""Shows where the time of the processor goes in an update of a language model, by bin/update_profile with one thread."""
import json
import subprocess

import language

KINDS = ("products", "attention", "norms", "activations", "dropout", "loss", "embeddings", "positions", "optimiser",
         "gradients added", "copies", "other")


def profile(build, precision, length, spec, updates):
    command = [build / "bin" / "update_profile", precision, length, spec, updates]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["parts"]


def row_of(build, precision, length, spec, updates, roof):
    parts = profile(build, precision, length, spec, updates)
    total = sum(part["ms"] for part in parts.values())
    least = language.least_update_seconds(spec, precision, length, build / "bin" / "fovea", roof)
    shares = {f"{kind} %": 100 * parts.get(kind, {"ms": 0})["ms"] / total for kind in KINDS}
    return {"precision": precision, "segment": length, "mechanism": spec, "ms": total, "share of roof": 1e3 * least / total,
            **shares, "page faults": sum(part["faults"] for part in parts.values())}


def rows(given, roof):
    """`roof`: of one thread. Rows come one by one."""
    updates = 1 if given.quick else 3
    for length in language.QUICK_LENGTHS if given.quick else language.LENGTHS:
        for precision in ("float32", "bfloat16"):
            for spec in language.SPECS:
                yield row_of(given.build.resolve(), precision, length, spec, updates, roof)
