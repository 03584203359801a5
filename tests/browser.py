"""A headless Chromium for tests, by its DevTools protocol over two pipes."""
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60  # seconds for an answer


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser. `requests` are the addresses that the page asked for, `errors` what it threw or logged."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="fovea-browser-")
        self.requests, self.errors, self.buffer, self.number = [], [], b"", 0
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def connect():  # Chromium reads commands from descriptor 3 and writes answers to 4
            inputs, outputs = os.dup(commands), os.dup(answers)
            os.dup2(inputs, 3)
            os.dup2(outputs, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=connect,
            close_fds=False)
        os.close(commands)
        os.close(answers)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until):
        """The next message of the browser; None if none comes before `until`."""
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, until - time.monotonic()))[0]:
                return None
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        found = json.loads(text)
        self.note(found.get("method"), found.get("params", {}))
        return found

    def note(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while (answer := self.message(until)) is not None:
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
        raise RuntimeError(f"{method}: no answer within {PATIENCE} seconds")

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def wait_for(self, expression):
        until = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"never true: {expression}; errors: {self.errors}")
            time.sleep(0.05)

    def open(self, path, fragment="", width=1400, height=1000, scheme="light"):
        """Opens a report and waits until it is drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{pathlib.Path(path).resolve().as_uri()}{fragment}")
        self.wait_for("document.readyState === 'complete' && document.documentElement.hasAttribute('data-drawn')")

    def press(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
