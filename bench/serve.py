#!/usr/bin/env python3
"""Measures `fovea serve`: serve.py --fovea PROGRAM --model DIR --input TEXT.

Prints a table: the throughput with several clients beside that of `translate` on the same lines (alternating, medians),
the processor's time for a sentence on both sides, the latency of a sentence alone and at half of that throughput, and the
memory after many short requests. With --ctranslate2 DIR, CTranslate2 behind the simplest server answers the same lines.
With --overload, what becomes of requests at several times the capacity, beside clients that are slow, silent, or leave.
With --language-model DIR, how long a sentence and a short text wait beside long texts."""
import argparse
import collections
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time

from serve_client import Load, Server, post


def show(name, *values):
    print(f"| {name} | {' | '.join(map(str, values))} |", flush=True)


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def translate_file(arguments, lines):
    """Seconds and the processor's seconds for all lines, without those to load the model, and the translations."""
    command = [arguments.fovea, "translate", "--model", arguments.model, "--quiet", *arguments.options]

    def run(text):
        began, spent = time.perf_counter(), children_seconds()
        found = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
        return time.perf_counter() - began, children_seconds() - spent, found.splitlines()

    empty, empty_spent, _ = run("")
    seconds, spent, found = run("".join(f"{line}\n" for line in lines))
    return seconds - empty, spent - empty_spent, found


def texts_of(load):
    return [json.loads(answer)["translations"][0]["text"] for answer in load.answers]


def show_throughput(arguments, server, lines):
    """Returns the sentences a second of the server."""
    requests = [post({"text": line}) for line in lines]
    Load(server.port, requests[:64], arguments.clients)
    found = collections.defaultdict(list)
    for _ in range(arguments.rounds):
        seconds, spent, expected = translate_file(arguments, lines)
        before = server.processor_seconds()
        load = Load(server.port, requests, arguments.clients)
        if texts_of(load) != expected:
            raise SystemExit("serve.py: the server's translations are not those of translate")
        found["translate"].append(len(lines) / seconds)
        found["serve"].append(len(lines) / load.seconds)
        found["share"].append(seconds / load.seconds)
        found["translate ms"].append(1000 * spent / len(lines))
        found["serve ms"].append(1000 * (server.processor_seconds() - before) / len(lines))
        found["clients ms"].append(1000 * load.own_seconds / len(lines))
    middle = {name: statistics.median(values) for name, values in found.items()}
    show(f"sentences a second, {arguments.clients} clients", f"{middle['serve']:.0f}",
         f"translate {middle['translate']:.0f}; share {middle['share']:.2f}")
    show("processor's time for a sentence, ms", f"{middle['serve ms']:.2f}",
         f"translate {middle['translate ms']:.2f}; clients {middle['clients ms']:.2f}")
    return middle["serve"]


def latency(load):
    return f"p50 {1000 * load.quantile(0.5):.1f}, p99 {1000 * load.quantile(0.99):.1f}"


def show_latency(server, lines, rate):
    show("a sentence alone, ms", latency(Load(server.port, [post({"text": line}) for line in lines[:200]], 1)), "")
    draw, moment, arrivals = random.Random(1), 0.0, []
    chosen = [draw.choice(lines) for _ in range(max(300, int(rate * 5)))]
    for _ in chosen:
        moment += draw.expovariate(rate / 2)
        arrivals.append(moment)
    load = Load(server.port, [post({"text": line}) for line in chosen], 1, arrivals)
    show("at half of that throughput, ms", latency(load), f"{rate / 2:.0f} requests a second, at random times")


def show_memory(arguments, server):
    if not arguments.short_requests:
        return
    before, request = server.resident(), post({"text": "OK"})
    values = []
    for _ in range(5):
        load = Load(server.port, [request] * (arguments.short_requests // 5), arguments.clients)
        values.append(f"{server.resident():.0f}")
    show(f"resident memory after {arguments.short_requests} short requests, MB", values[-1],
         f"{before:.0f} before; each fifth {', '.join(values)}; {len(load.answers) / load.seconds:.0f} a second")


def show_peer(arguments, lines, expected):
    """Sends the same lines to CTranslate2, which gets pieces: splitting them is not in its time."""
    pieces = subprocess.run([arguments.fovea, "embed", "--model", arguments.model, "--pieces", "--quiet"], capture_output=True, text=True,
                            input="".join(f"{line}\n" for line in lines), check=True).stdout.splitlines()
    requests = [post({"pieces": line.split()[:-1]}) for line in pieces]
    server = Server([sys.executable, pathlib.Path(__file__).with_name("serve_ctranslate2.py"), arguments.ctranslate2, arguments.threads, 5])
    Load(server.port, requests[:64], arguments.clients)
    loads = []
    for _ in range(arguments.rounds):
        before = server.processor_seconds()
        loads.append(Load(server.port, requests, arguments.clients))
        loads[-1].spent = server.processor_seconds() - before
    said = ["".join(json.loads(answer)["pieces"]).replace("\u2581", " ").strip() for answer in loads[-1].answers]
    same = sum(a == b for a, b in zip(said, expected)) / len(lines)
    alone = Load(server.port, requests[:200], 1)
    show("CTranslate2: sentences a second", f"{statistics.median(len(lines) / load.seconds for load in loads):.0f}",
         f"{100 * same:.1f}% of the translations are the same")
    show("CTranslate2: processor's time for a sentence, ms", f"{statistics.median(1000 * load.spent / len(lines) for load in loads):.2f}", "")
    show("CTranslate2: a sentence alone, ms", latency(alone), f"{server.resident():.0f} MB")
    server.process.terminate()
    server.process.wait()


def bad_client(port, until):
    """Sends half a request, waits or leaves; again and again."""
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                body = b'{"text": "some words"}'
                connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n" +
                                   body[:random.randrange(len(body) + 1)])
                time.sleep(random.random())
        except OSError:
            pass


def show_overload(arguments, server, lines):
    expected = dict(zip(lines, translate_file(arguments, lines)[2]))
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
    show(f"overload of {arguments.overload:.0f} s, answers by code", dict(codes), f"{wrong} wrong")
    show("resident memory, MB", f"{server.resident():.0f}", f"{before:.0f} before")


def show_waits(arguments, lines):
    """Seconds of a sentence, and of a text of 20 tokens, alone and beside long texts whose clients leave afterwards."""
    server = Server([arguments.fovea, "serve", "--port", "0", "--quiet", "--model", f"translation={arguments.model}",
                     f"language={arguments.language_model}", *arguments.options])
    prompt = list(range(97, 123)) * 81
    others = {"none": None, "a prompt of 2,101 tokens, 4,000 more": {"prompt": prompt[:2101], "max_tokens": 4000},
              "8 prompts, n 8, 4,096 tokens": {"prompt": [[97 + i] for i in range(8)], "n": 8, "max_tokens": 4096}}
    asked = {"a sentence": ("/translate", {"model": "translation", "text": lines[0]}),
             "20 tokens": ("/v1/completions", {"model": "language", "prompt": [98], "max_tokens": 20})}
    show("beside", "a sentence, s", "20 tokens, s")
    for name, other in others.items():
        busy = server.connection()
        if other is not None:
            busy.request("POST", "/v1/completions", json.dumps({"model": "language", "stream": True, **other}),
                         {"Content-Type": "application/json"})
            busy.getresponse().read(1000)
        waits = []
        for path, body in asked.values():
            times = []
            for _ in range(arguments.rounds):
                began = time.perf_counter()
                status, answer = server.ask("POST", path, body)
                times.append(time.perf_counter() - began)
                if status != 200:
                    raise SystemExit(f"serve.py: the server answered {status}: {answer[:200]!r}")
            waits.append(f"{statistics.median(times):.2f}")
        show(name, *waits)
        busy.close()
        while float(re.search(rb"\nfovea_running (\d+)", server.ask("GET", "/metrics")[1])[1]) > 0:
            time.sleep(0.05)
    return server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fovea", default="build/release/bin/fovea")
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True, help="text, one sentence per line")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of CTranslate2")
    parser.add_argument("--short-requests", type=int, default=100_000, help="0: none")
    parser.add_argument("--ctranslate2", help="the same model, written by fovea convert --to ctranslate2")
    parser.add_argument("--language-model", help="measure only how long requests wait beside long texts of this model")
    parser.add_argument("--overload", type=float, default=0, help="seconds of overload, and nothing else (0: none)")
    parser.add_argument("options", nargs="*", help="options for both programs, behind --")
    arguments = parser.parse_args()
    with open(arguments.input) as file:
        lines = [line.rstrip("\n") for line in file][:arguments.lines]
    if arguments.language_model:
        return show_waits(arguments, lines)
    queue = ["--queue-tokens", "5000"] if arguments.overload else []
    server = Server([arguments.fovea, "serve", "--port", "0", "--quiet", "--model", arguments.model, *arguments.options, *queue])
    show("measured", "fovea serve", "beside it")
    show("---", "---", "---")
    if arguments.overload:
        show_overload(arguments, server, lines)
    else:
        show_latency(server, lines, show_throughput(arguments, server, lines))
        show_memory(arguments, server)
    exit_status = server.stop()
    if arguments.ctranslate2 and not arguments.overload:
        show_peer(arguments, lines, translate_file(arguments, lines)[2])
    return exit_status


if __name__ == "__main__":
    sys.exit(main())
