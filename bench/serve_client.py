"""Clients that cost little: one thread and one selector for many connections, so that the server has the processor."""
import collections
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import time
import urllib.parse


class Server:
    """A server in a process of its own, whose first line of output is its address."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        address = urllib.parse.urlsplit(self.process.stdout.readline().strip())
        if address.port is None:
            raise SystemExit(f"serve.py: {command[0]} did not start; see its message above")
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
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def post(body):
    data = json.dumps(body).encode()
    return b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)


class Client:
    """A connection that stays open, and the request that it waits for."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number, self.began, self.received = 0, 0.0, b""

    def send(self, number, request, began):
        self.number, self.began, self.received = number, began, b""
        self.socket.sendall(request)

    def take(self):
        """The body of the answer, once it is whole."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise SystemExit("serve.py: the server closed a connection")
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return None
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"serve.py: the server answered {self.received[:200]!r}")
        size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return body if len(body) == size else None


class Load:
    """The fate of requests: seconds in all, seconds of each, the answers in order, and this process's own time."""

    def __init__(self, port, requests, clients, arrivals=None):
        """Sends every request as soon as one of the clients is free, or with `arrivals` (seconds, ascending) at its time,
        over as many connections as that takes. A latency counts from the time at which a request should be sent."""
        self.answers, self.latencies = [None] * len(requests), [0.0] * len(requests)
        self.selector, self.idle = selectors.DefaultSelector(), collections.deque(Client(port) for _ in range(clients))
        for client in self.idle:
            self.selector.register(client.socket, selectors.EVENT_READ, client)
        own = time.process_time()
        self.began = time.perf_counter()
        sent = done = 0
        while done < len(requests):
            while sent < len(requests) and (self.idle or arrivals) and (not arrivals or arrivals[sent] <= self.now()):
                if not self.idle:
                    self.idle.append(Client(port))
                    self.selector.register(self.idle[0].socket, selectors.EVENT_READ, self.idle[0])
                self.idle.popleft().send(sent, requests[sent], arrivals[sent] if arrivals else self.now())
                sent += 1
            wait = max(0.0, arrivals[sent] - self.now()) if arrivals and sent < len(requests) else None
            for key, _ in self.selector.select(wait):
                client = key.data
                if (body := client.take()) is None:
                    continue
                self.answers[client.number], self.latencies[client.number] = body, self.now() - client.began
                self.idle.append(client)
                done += 1
        self.seconds, self.own_seconds = self.now(), time.process_time() - own
        for client in self.idle:
            client.socket.close()

    def now(self):
        return time.perf_counter() - self.began

    def quantile(self, share):
        return sorted(self.latencies)[min(len(self.latencies) - 1, int(share * len(self.latencies)))]
