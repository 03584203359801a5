#!/usr/bin/env python3
"""Measures `fovea serve` against `fovea translate`: serve.py --fovea PROGRAM --model DIR --input TEXT.

Prints the throughput with several clients as a share of that of `translate` on the same lines (alternating, medians), the
latency of a sentence alone, and with --overload what becomes of requests at several times the capacity, beside clients
that are slow, silent, or leave."""
import argparse
import collections
import concurrent.futures
import http.client
import json
import random
import signal
import socket
import statistics
import subprocess
import threading
import time
import urllib.parse


class Server:
    def __init__(self, program, options):
        self.process = subprocess.Popen([program, "serve", "--port", "0", "--quiet", *options], stdout=subprocess.PIPE, text=True)
        address = urllib.parse.urlsplit(self.process.stdout.readline().strip())
        if address.port is None:
            raise SystemExit(f"serve.py: {program} did not start; see its message above")
        self.port = address.port
        while self.ask("GET", "/ready")[0] != 200:
            time.sleep(0.05)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def ask(self, method, path, body=None, connection=None):
        used = connection or self.connection()
        used.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        response = used.getresponse()
        answer = response.read()
        if connection is None:
            used.close()
        return response.status, answer

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096 / (1 << 20)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def translate_file(arguments, lines):
    """Seconds for all lines, and the translations; without the time to load the model."""
    command = [arguments.fovea, "translate", "--model", arguments.model, "--quiet", *arguments.options]

    def run(text):
        began = time.perf_counter()
        found = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
        return time.perf_counter() - began, found.splitlines()

    empty, _ = run("")
    seconds, found = run("".join(f"{line}\n" for line in lines))
    return seconds - empty, found


def serve_lines(server, lines, clients):
    """Seconds for all lines, one request each, and the translations."""
    local = threading.local()

    def one(line):
        if not hasattr(local, "connection"):
            local.connection = server.connection()
        return json.loads(server.ask("POST", "/translate", {"text": line}, local.connection)[1])["translations"][0]["text"]

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        found = list(pool.map(one, lines))
        return time.perf_counter() - began, found


def show_throughput(arguments, server, lines):
    shares = []
    for _ in range(arguments.rounds):
        alone, expected = translate_file(arguments, lines)
        served, found = serve_lines(server, lines, arguments.clients)
        if found != expected:
            raise SystemExit("serve.py: the server's translations are not those of translate")
        shares.append(alone / served)
        print(f"translate {len(lines) / alone:.0f} sentences/s, serve {len(lines) / served:.0f}, share {shares[-1]:.2f}", flush=True)
    print(f"throughput with {arguments.clients} clients: {statistics.median(shares):.2f} of translate's")


def show_latency(server, lines):
    connection = server.connection()
    seconds = []
    for line in lines[:200]:
        began = time.perf_counter()
        server.ask("POST", "/translate", {"text": line}, connection)
        seconds.append(time.perf_counter() - began)
    seconds.sort()
    print(f"a sentence alone: p50 {1000 * seconds[len(seconds) // 2]:.1f} ms, p99 {1000 * seconds[int(0.99 * len(seconds))]:.1f} ms")


def bad_client(port, until):
    """Sends half a request, waits or leaves; again and again."""
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                body = b'{"text": "some words"}'
                connection.sendall(b"POST /translate HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n" +
                                   body[:random.randrange(len(body) + 1)])
                time.sleep(random.random())
        except OSError:
            pass


def show_overload(arguments, server, lines):
    expected = dict(zip(lines, translate_file(arguments, lines)[1]))
    codes, wrong = collections.Counter(), 0
    before, until = server.resident(), time.monotonic() + arguments.overload
    bad = [threading.Thread(target=bad_client, args=(server.port, until)) for _ in range(20)]
    for thread in bad:
        thread.start()

    def client(number):
        nonlocal wrong
        chosen, connection = random.Random(number), server.connection()
        while time.monotonic() < until:
            line = chosen.choice(lines)
            try:
                status, answer = server.ask("POST", "/translate", {"text": [line] * 20}, connection)
            except (OSError, http.client.HTTPException):
                codes["closed"] += 1
                connection = server.connection()
                continue
            codes[status] += 1
            if status == 200 and [found["text"] for found in json.loads(answer)["translations"]] != [expected[line]] * 20:
                wrong += 1
            if status == 503:
                time.sleep(0.05)

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        list(pool.map(client, range(64)))
    for thread in bad:
        thread.join()
    print(f"overload: {dict(codes)}, {wrong} wrong answers, resident {before:.0f} MB before and {server.resident():.0f} MB after")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fovea", default="build/release/bin/fovea")
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True, help="text, one sentence per line")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--overload", type=float, default=0, help="seconds of overload (0: none)")
    parser.add_argument("options", nargs="*", help="options for both programs, behind --")
    arguments = parser.parse_args()
    with open(arguments.input) as file:
        lines = [line.rstrip("\n") for line in file][:arguments.lines]
    queue = ["--queue-tokens", "5000"] if arguments.overload else []
    server = Server(arguments.fovea, ["--model", arguments.model, *arguments.options, *queue])
    if arguments.overload:
        show_overload(arguments, server, lines)
    else:
        show_throughput(arguments, server, lines)
        show_latency(server, lines)
    print(f"resident: {server.resident():.0f} MB; exit {server.stop()}")


if __name__ == "__main__":
    main()
