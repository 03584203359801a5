"""CTranslate2 behind the simplest server: a thread for each connection, Python's http.server, and no batches across clients.
serve_ctranslate2.py FOLDER THREADS BEAM: answers {"pieces": [...]} with {"pieces": [...]}."""
import http.server
import json
import sys

import ctranslate2

translator = ctranslate2.Translator(sys.argv[1], device="cpu", intra_threads=int(sys.argv[2]))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one write

    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def do_GET(self):
        self.answer("ready")

    def do_POST(self):
        pieces = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["pieces"]
        result = translator.translate_batch([pieces], beam_size=int(sys.argv[3]), length_penalty=1, disable_unk=True)[0]
        self.answer({"pieces": result.hypotheses[0]})

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


with Server(("127.0.0.1", 0), Handler) as server:
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
