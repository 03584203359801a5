#!/usr/bin/env python3
"""`fovea serve` with bad input, too much work, clients that leave, signals, keys and other pages."""
import json
import os
import pathlib
import signal
import socket
import time
import unittest

from fovea_program import Refusals, Workplace
from served_program import PATIENCE, Served, language_model

PLACE = Workplace()
LINES = PLACE.sides["test"][0].read_text().splitlines()[:8]
MODEL = ["--model", f"en-de={PLACE.model()}", "--max-length-factor", 1]
# A text whose translation takes seconds: nothing but its end ends it.
LONG = {"text": [" ".join(LINES)] * 200, "beam-size": 20, "max-length-factor": 10}
POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Served(*MODEL, "--quiet", "--max-connections", 40)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def status(self, *parts):
        """The status of the answer to raw bytes; 0 if the server just closes."""
        answer = self.server.raw(*parts)
        return int(answer.split()[1]) if answer else 0

    def test_broken_http(self):
        for sent in ((POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",),
                     (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",),
                     (POST + b"Content-Length: -1\r\n\r\n",), (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",),
                     (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",), (b"GET\r\n\r\n",), (b"\0\0\0\0\r\n\r\n",)):
            self.assertEqual(self.status(*sent), 400, sent)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"), 431)

    def test_ends_of_bodies_on_which_a_proxy_may_disagree(self):
        for coding in (b"gzip", b"gzip, chunked", b"chunked\r\nTransfer-Encoding: chunked", b"x"):
            sent = POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"
            answer = self.server.raw(sent)
            self.assertIn(answer[:12], (b"HTTP/1.1 400", b"HTTP/1.1 501"), coding)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1, coding)
        self.assertEqual(self.status(b"POST /translate HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 501)

    def test_chunks_whose_extras_do_not_end_are_refused(self):
        before = self.server.metric("resident_memory_bytes")
        for begins, more in ((b"1;", b"a" * (1 << 20)), (b"0\r\n", b"X: y\r\n" * 100_000), (b"0\r\nX: ", b"y" * (1 << 20))):
            self.assertEqual(self.status(POST + b"Transfer-Encoding: chunked\r\n\r\n" + begins, *[more] * 20), 400, begins)
        self.assertLess(self.server.metric("resident_memory_bytes"), before + (20 << 20))

    def test_other_forms_of_requests(self):
        self.assertEqual(self.status(b"GET http://x:80/health?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 200)
        self.assertEqual(self.status(b"GET http://x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 404)
        body = json.dumps({"text": LINES[0]}).encode()
        post = POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        answer = self.server.raw(b"\r\n" + post + b"\r\n" + post + b"\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(self.status(b"\r\n" * 20 + post), 400)
        status, answer, _ = self.server.post("/translate", body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        self.assertEqual((status, answer["error"]), (415, "Content-Encoding: got 'gzip'; send the body as it is"))

    def test_messages_are_short_and_say_where(self):
        status, answer, _ = self.server.post("/translate", {"q": "x", "source": "\u00e4" * 100_000, "target": "de"})
        self.assertEqual(status, 400)
        self.assertIn("\u00e4...", answer["error"])
        self.assertLess(len(answer["error"]), 200)
        for body, says in ((b'{"text": "\\ud800x"}', "byte 17 follows half of a surrogate pair"), (b'{"text": NaN}', "byte 10 is not"),
                           (b'{"text": "x"', "it ends too early"), (b'{"text": "x", "normalize": 1e999}', "too large")):
            status, answer, _ = self.server.post("/translate", body, headers={"Content-Type": "application/json"})
            self.assertEqual(status, 400)
            self.assertIn(says, answer["error"])

    def test_large_bodies(self):
        body = b"x" * 30_000_000
        self.assertEqual(self.status(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body), 413)
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        self.assertEqual(self.status(POST + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 4), 413)

    def test_costly_texts(self):
        """Requests whose cost could grow like the square of their size. Memory is counted, not time."""
        ask = lambda **body: self.server.post("/translate", body)
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status")
        most = lambda: int(status.read_text().split("VmHWM:")[1].split()[0]) // 1024  # MiB
        before = most()
        tags = 30_000
        code, answer, _ = ask(text="x" + "<b></b>" * tags, format="html")
        self.assertEqual(code, 200, answer)
        self.assertEqual(answer["translations"][0]["text"].count("<b>"), tags)
        self.assertLess(most() - before, 250)
        self.assertEqual(ask(text="x<b>x</b>" * tags, format="html")[0], 400)  # one word of 60,000 bytes
        code, answer, _ = ask(text="x<b>x</b>" * 60_000, format="html")
        self.assertEqual(code, 413, answer)
        self.assertIn("expected at most 100000 tags", answer["error"])
        code, answer, _ = ask(text="\u4e00" * 100_000)
        self.assertEqual(code, 400, answer)
        self.assertIn("a sentence has 300000 bytes; expected at most ", answer["error"])
        self.assertEqual(ask(text=" " * 500_000)[0], 200)
        code, answer, _ = ask(text="a. b\n" * 100_000, split=True)
        self.assertEqual(code, 413, answer)
        self.assertIn("expected at most 50000", answer["error"])
        terms = "".join(f"dog w{i}\tx\n" for i in range(20_000))
        self.assertEqual(ask(text="dog", terms=terms)[0], 200)
        self.assertEqual(ask(text="dog", terms="a " * 101 + "\tx")[0], 400)
        self.assertLess(most() - before, 400)

    def test_bodies_that_are_not_json(self):
        for body in (b"[" * 2_000_000, b'{"text": "\xff"}', b"{", b"null", b"[]", b'{"text": ' + b'{"a":' * 100_000, b'"x"', b""):
            status, answer, _ = self.server.post("/translate", body, headers={"Content-Type": "application/json"})
            self.assertEqual(status, 400, body[:40])
            self.assertNotIn("\n", answer["error"])
        self.assertEqual(self.server.post("/translate", b"x", headers={"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.server.post("/translate", b"q=%", headers={"Content-Type": "application/x-www-form-urlencoded"})[0],
                         400)

    def test_a_body_comes_in_pieces(self):
        body = json.dumps({"text": LINES[0]}).encode()
        head = POST + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        self.assertEqual(self.status(head, *[body[i:i + 7] for i in range(0, len(body), 7)]), 200)
        chunks = [f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (body[:9], body[9:])]
        self.assertEqual(self.status(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"), 200)
        self.assertEqual(self.status(POST + b"Expect: 100-continue\r\n" + head[len(POST):], body), 100)

    def test_heads_alone(self):
        answer = self.server.raw(b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK"), answer)
        self.assertTrue(answer.endswith(b"\r\n\r\n"), answer)

    def test_requests_behind_one_another(self):
        request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = self.server.raw(request * 3 + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 4)

    def test_slow_clients_do_not_hold_back_others(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(30)]
        for connection in slow:
            connection.sendall(POST + b"Content-Length: 1000\r\n\r\n{")
        self.assertEqual(self.server.post("/translate", {"text": LINES[0]})[0], 200)
        more = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(20)]
        answer = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer[:40])
        self.assertIn(b"Retry-After: ", answer)
        for connection in slow + more:
            connection.close()
        self.server.wait_for(lambda: self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200"),
                             "room for a connection")


class Overload(unittest.TestCase):
    def test_a_request_without_end_is_refused(self):
        with Served(*MODEL, "--read-timeout", 0.3, "--quiet") as server:
            for part in (b"GET / HTTP/1.1\r\nX: y\r\n", POST + b"Content-Length: 10\r\n\r\n{",
                         POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{    \r\n"):
                self.assertTrue(server.raw(part).startswith(b"HTTP/1.1 408"), part)

    def test_a_full_queue_is_told_and_others_take_turns(self):
        with Served(*MODEL, "--queue-tokens", 20000, "--mini-batch", 4, "--quiet") as server:
            with socket.create_connection(("127.0.0.1", server.port)) as busy:
                body = json.dumps({"text": LINES[:1] * 900, "beam-size": 20, "max-length-factor": 6}).encode()
                busy.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                server.wait_for(lambda: server.metric("queue_tokens") > 1000, "a queue")
                status, answer, headers = server.post("/translate", {"text": LINES[:1] * 900})
                self.assertEqual(status, 503, answer)
                self.assertIn("tokens of other requests wait", answer["error"])
                self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                # A single sentence waits for its turn, not for the end of the list.
                self.assertEqual(server.post("/translate", {"text": LINES[0], "beam-size": 1})[0], 200)
                self.assertGreater(server.metric("queue_tokens"), 0)
            # The client has left: its rows and its place in the queue are free again.
            server.wait_for(lambda: server.metric("running") == 0 and server.metric("queue_tokens") == 0, "no work")
            server.wait_for(lambda: server.metric("cancelled_total") == 1, "the count")
            self.assertEqual(server.post("/translate", {"text": ["un " * 200] * 400})[0], 413)
            # A client that has sent its next request already leaves, too.
            with socket.create_connection(("127.0.0.1", server.port)) as busy:
                busy.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                server.wait_for(lambda: server.metric("running") > 0, "work")
            server.wait_for(lambda: server.metric("running") == 0 and server.metric("queue_tokens") == 0, "no work")
            server.wait_for(lambda: server.metric("cancelled_total") == 2, "the count")

    def test_a_long_text_holds_back_no_other_request(self):
        models = ["--model", f"en-de={PLACE.model()}", f"lm={language_model(PLACE)}"]
        with Served(*models, "--max-length-factor", 1, "--quiet") as server:
            text = {"model": "lm", "prompt": "a" * 2101, "max_tokens": 4000, "n": 2, "stream": True}
            body = json.dumps(text).encode()
            head = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            with socket.create_connection(("127.0.0.1", server.port)) as busy:
                busy.sendall(b"POST /v1/completions HTTP/1.1\r\n" + head + body)
                server.wait_for(lambda: server.metric("running") == 2, "the texts")
                self.assertEqual(server.post("/translate", {"text": LINES[0], "model": "en-de"})[0], 200)
                status, answer, _ = server.post("/v1/completions", {"model": "lm", "prompt": "b", "max_tokens": 8})
                self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 8))
                # The long texts are not done: the others have not waited for their end. An answer may come a moment before its
                # row is free.
                server.wait_for(lambda: server.metric("running") == 2, "the texts alone")

    def test_what_cannot_be_ready_is_refused_at_once(self):
        with Served("--model", f"lm={language_model(PLACE)}", "--timeout", 3, "--max-new-tokens", 1_000_000, "--quiet") as server:
            endless = {"model": "lm", "prompt": "a", "max_tokens": 1_000_000, "stop": []}
            statuses = []
            for _ in range(4):
                status, answer, headers = server.post("/v1/completions", endless)
                statuses.append(status)
            self.assertEqual(statuses[-1], 503, statuses)  # once the speed is known; before, 504
            self.assertIn("--timeout is 3 s", answer["error"]["message"])
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            self.assertEqual(server.post("/v1/completions", {"model": "lm", "prompt": "a", "max_tokens": 4})[0], 200)

    def test_a_deadline_frees_the_place(self):
        with Served(*MODEL, "--timeout", 0.5, "--quiet") as server:
            status, answer, _ = server.post("/translate", LONG)
            self.assertEqual(status, 504, answer)
            self.assertIn("no answer within 0.5 s", answer["error"])
            server.wait_for(lambda: server.metric("running") == 0 and server.metric("queue_tokens") == 0, "no work")
            self.assertEqual(server.post("/translate", {"text": "un"})[0], 200)


class Signals(unittest.TestCase):
    def test_sigterm_finishes_what_is_there(self):
        with Served(*MODEL, "--quiet") as server:
            body = json.dumps({"text": LINES * 32, "beam-size": 20}).encode()
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
                client.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                server.wait_for(lambda: server.metric("running") > 0, "work")
                server.process.send_signal(signal.SIGTERM)
                answer = b""
                while data := client.recv(1 << 16):
                    answer += data
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK"), answer[:60])
            self.assertEqual(len(json.loads(answer.split(b"\r\n\r\n", 1)[1])["translations"]), 256)
            self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_a_second_one_ends_at_once(self):
        server = Served(*MODEL, "--quiet")
        body = json.dumps(LONG).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            server.wait_for(lambda: server.metric("running") > 0, "work")
            for number in (signal.SIGTERM, signal.SIGINT):
                server.process.send_signal(number)
                time.sleep(0.2)
            self.assertEqual(server.process.wait(PATIENCE), -signal.SIGINT)
        server.process.communicate()

    def test_sighup_loads_the_models_again(self):
        place = PLACE.folder / "reloaded"
        place.symlink_to(PLACE.model())
        with Served("--model", place) as server:
            before = server.post("/translate", {"text": LINES[0], "max-length-factor": 1})[1]
            server.process.send_signal(signal.SIGHUP)
            server.wait_for(lambda: server.metric("reloads_total") == 1, "a reload")
            self.assertEqual(server.post("/translate", {"text": LINES[0], "max-length-factor": 1})[1], before)
            place.unlink()
            server.process.send_signal(signal.SIGHUP)
            server.wait_for(lambda: server.metric("failed_reloads_total") == 1, "a failed reload")
            self.assertEqual(server.post("/translate", {"text": LINES[0], "max-length-factor": 1})[1], before)
        self.assertIn("cannot load the models again; the old ones stay: ", server.errors)
        self.assertIn("loaded the models again", server.errors)


class Safety(unittest.TestCase):
    def test_keys(self):
        keys = PLACE.folder / "keys"
        keys.write_text("first-key\n\n second-key \n")
        with Served(*MODEL, "--api-key", keys, "--quiet") as server:
            body = {"text": "un"}
            for headers in ({"Authorization": "Bearer first-key"}, {"X-API-Key": "second-key"},
                            {"Authorization": "DeepL-Auth-Key first-key"},
                            {"Authorization": "Bearer of-a-proxy", "X-API-Key": "second-key"}):
                self.assertEqual(server.post("/translate", body, headers=headers)[0], 200)
            self.assertEqual(server.post("/translate", {"q": "un", "source": "en", "target": "de", "api_key": "first-key"})[0], 200)
            for headers in ({}, {"Authorization": "Bearer first-ke"}, {"Authorization": "Bearer first-key2"}, {"X-API-Key": ""}):
                status, answer, _ = server.post("/translate", body, headers=headers)
                self.assertEqual(status, 403)
                self.assertIn("a key is needed", answer["error"])
            self.assertEqual(server.post("/v2/translate", {"text": ["un"], "target_lang": "DE"})[0], 403)
            status, answer, _ = server.ask("GET", "/v1/models")
            self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))
            for path in ("/health", "/ready", "/metrics", "/"):
                self.assertEqual(server.ask("GET", path)[0], 200)

    def test_pages_of_others(self):
        page = {"Origin": "https://example.org"}
        with Served(*MODEL, "--quiet") as server:
            status, answer, headers = server.post("/translate", {"text": "un"}, headers=page)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (403, None))
            own = {"Origin": f"http://127.0.0.1:{server.port}"}
            self.assertEqual(server.post("/translate", {"text": "un"}, headers=own)[0], 200)
        with Served(*MODEL, "--allow-origin", "https://example.org", "--quiet") as server:
            status, _, headers = server.ask("OPTIONS", "/translate", headers=page)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://example.org"))
            self.assertIn("Content-Type", headers["Access-Control-Allow-Headers"])
            self.assertEqual(server.post("/translate", {"text": "un"}, headers=page)[0], 200)
            self.assertEqual(server.post("/translate", {"text": "un"}, headers={"Origin": "https://example.com"})[0], 403)

    def test_the_log_has_ids_but_no_texts(self):
        with Served(*MODEL) as server:
            server.post("/translate", {"text": "secret"})
            number = server.ask("GET", "/health")[2]["X-Request-Id"]
        self.assertNotIn("secret", server.errors)
        self.assertIn(f"id {number}", server.errors)
        with Served(*MODEL, "--log-texts") as server:
            server.post("/translate", {"text": "secret"})
        self.assertIn("secret", server.errors)


class Start(Refusals):
    def serve(self, *options, says, code=1):
        self.refused("serve", *options, says=says, code=code, env=dict(os.environ))

    def test_refusals(self):
        self.serve("--port", 0, says="--model is missing", code=2)
        self.serve("--model", PLACE.folder / "none", "--port", 0, says="none")
        self.serve("--model", PLACE.model(), f"b={PLACE.folder / 'none'}", "--port", 0, says="none")
        self.serve("--model", f"en-de={PLACE.model()}", f"en-de={PLACE.model()}", "--port", 0, says="both have the name 'en-de'")
        self.serve("--model", PLACE.model(), "--port", 70000, says="--port", code=2)
        self.serve("--model", PLACE.model(), "--host", "nowhere", "--port", 0, says="--host: got 'nowhere'")
        empty = PLACE.folder / "empty-keys"
        empty.write_text("\n")
        self.serve("--model", PLACE.model(), "--api-key", empty, "--port", 0, says="has no key")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.serve("--model", PLACE.model(), "--port", taken.getsockname()[1], says=["--port: cannot listen", "in use"])

    def test_several_models(self):
        with Served("--model", f"en-de={PLACE.model()}", f"en-fr={PLACE.model()}", f"de-en={PLACE.model()}", "--quiet") as server:
            status, answer, _ = server.post("/translate", {"q": "un", "source": "en", "target": "es"})
            self.assertEqual(status, 400)
            self.assertIn("there is en-de, en-fr, de-en", answer["error"])
            self.assertEqual(server.post("/v2/translate", {"text": ["un"], "target_lang": "EN-GB"})[1]["translations"][0]
                             ["detected_source_language"], "DE")
            status, answer, _ = server.post("/translate", {"q": "un", "source": "auto", "target": "de"})
            self.assertEqual(status, 400)
            self.assertIn("expected en or de", answer["error"])
            self.assertEqual(server.post("/translate", {"text": "un"})[0], 400)
            self.assertEqual(server.post("/translate", {"text": "un", "target": "fr"})[1]["model"], "en-fr")

    def test_a_model_of_another_name_answers_to_its_name_alone(self):
        with Served("--model", f"en-de={PLACE.model()}", f"small={PLACE.model()}", "--quiet") as server:
            status, answer, _ = server.post("/translate", {"q": "un", "source": "en", "target": "fr"})
            self.assertEqual(status, 400)
            self.assertIn("no model translates from en into fr; there is en-de, small", answer["error"])
            self.assertEqual(server.post("/translate", {"text": "un", "model": "small"})[1]["model"], "small")

    def test_a_model_that_is_not_a_text_model(self):
        path = PLACE.folder / "tagger"
        path.mkdir()
        (path / "config.yml").write_text("x: 1\n")
        self.serve("--model", path, "--port", 0, says=str(path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
