"""`fovea serve` as a process of a test, and requests to it."""
import http.client
import json
import signal
import socket
import subprocess
import time
import urllib.parse

from fovea_program import PROGRAM, checked

PATIENCE = 60  # seconds


class Served:
    """A server that runs until the end of a with statement. It must then end with exit code 0 at SIGTERM."""

    def __init__(self, *options, ready=True, before=()):
        self.log = []
        self.process = subprocess.Popen([*before, PROGRAM, "serve", "--port", "0", "--cpu-threads", "1", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.communicate()[1])
        self.port = urllib.parse.urlsplit(self.url).port
        if ready:
            self.wait_until_ready()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.errors = self.process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None and self.process.returncode != 0:
            raise AssertionError(f"exit {self.process.returncode}: {self.errors}")

    def wait_until_ready(self):
        until = time.monotonic() + PATIENCE
        while self.ask("GET", "/ready")[0] != 200:
            if time.monotonic() > until or self.process.poll() is not None:
                self.process.kill()
                raise AssertionError(f"not ready: {self.process.communicate()[1]}")
            time.sleep(0.02)

    def ask(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """Sends a request; a body that is not bytes goes as JSON. Returns the status, the answer and its headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        given = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, given)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        return response.status, json.loads(data) if is_json else data.decode(), response.headers

    def post(self, path, body, **options):
        return self.ask("POST", path, body, **options)

    def raw(self, *parts, timeout=10, pause=0.05):
        """Sends bytes as they are, with pauses between the parts; returns all that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            try:
                for i, part in enumerate(parts):
                    time.sleep(pause if i > 0 else 0)
                    connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the end
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
        return answer

    def metric(self, name):
        for line in self.ask("GET", "/metrics")[1].splitlines():
            if line.startswith(f"fovea_{name} "):
                return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def wait_for(self, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"never: {what}")
            time.sleep(0.02)


def language_model(place):
    """A small model of bytes, trained once in the workplace."""
    path = place.folder / "language"
    if not path.exists():
        checked("train", "--task", "language", "--model", path, "--train-sets", place.sides["train"][1], "--vocabs", "bytes",
                "--segment-length", 32, "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2,
                "--transformer-dim-ffn", 32, "--mini-batch", 8, "--learn-rate", "0.01", "--lr-warmup", 5, "--cpu-threads", 1,
                "--after-batches", 12, "--quiet")
    return path
