"""The package's own tests on a device, each file in a process of its own, several at a time."""
import os
import pathlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files whose inputs lie where FOVEA_TEST_DEVICE says, and one that is about kernels for CUDA.
FILES = ("test_layers.py", "test_second_order.py", "test_operator.py", "test_grouped_queries.py", "test_laws.py",
         "test_device_kernels.py")
PACKAGE_TEST = ROOT / "tests" / "device" / "package_test.py"


def command(file):
    if file == PACKAGE_TEST:
        return [sys.executable, str(file)]
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=line",
            str(ROOT / "python" / "tests" / file)]


def count(word, text):
    found = re.findall(rf"(\d+) {word}", text)
    return int(found[-1]) if found else 0


def run(file, given):
    """A row: how many tests passed, and the names of those that did not."""
    start = time.monotonic()
    done = subprocess.run(command(file), capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, "FOVEA_TEST_DEVICE": given.torch_device, "PYTHONDONTWRITEBYTECODE": "1"})
    print(done.stdout, done.stderr, flush=True)
    failed = re.findall(r"^(?:FAILED|ERROR) \S*?(test_\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not failed:
        failed = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1:]
    passed = count("passed", done.stdout) if file != PACKAGE_TEST else int(not done.returncode)
    agrees = "yes" if not done.returncode and passed else "NO"
    return {"file": pathlib.Path(file).name, "passed": passed, "skipped": count("skipped", done.stdout),
            "failed": count("failed", done.stdout) + count("error", done.stdout), "seconds": time.monotonic() - start,
            "names": ", ".join(failed[:10]), "agrees": agrees}


def rows(given):
    files = [FILES[0], PACKAGE_TEST] if given.quick else [*FILES, PACKAGE_TEST]
    if given.device == "cpu":
        files = [file for file in files if file != PACKAGE_TEST]  # which compares with a device
    with ThreadPoolExecutor(min(len(files), max(1, (os.cpu_count() or 1) // 2))) as pool:
        for done in as_completed([pool.submit(run, file, given) for file in files]):
            yield done.result()
