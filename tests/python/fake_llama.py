# SPDX-License-Identifier: Apache-2.0
"""A llama-server that answers over HTTP as the real one was recorded to (llama.cpp of
llama_cpp_python 0.3.36), with a made-up model: a token is a byte, and an answer is a hash over the
model and all tokens before it.

  fake_llama.py -m MODEL --host SOCKET --slot-save-path FOLDER/ [-np SLOTS] [--gate FILE]
                [--api-key KEY] [--old-files]

A slot's KV is a hash for each of its tokens, which a slot file carries: an answer made with KV of
another model is another answer. `--gate FILE`: an answer, or a stream's second piece, waits until FILE is
there.
"""

import argparse
import hashlib
import json
import os
import select
import socketserver
import struct
import threading
import time
from array import array
from http.server import BaseHTTPRequestHandler
from pathlib import Path

WORDS = 8  # Tokens of an answer.


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m")
    parser.add_argument("--host")
    parser.add_argument("--slot-save-path")
    parser.add_argument("-np", type=int, default=2)
    parser.add_argument("--gate")
    parser.add_argument("--api-key")
    parser.add_argument("--old-files", action="store_true")
    parser.add_argument("--refuse-restore", action="store_true")
    return parser.parse_args()


class Model:
    def __init__(self, path):
        self.seed = Path(path).read_bytes()

    def kv(self, before, token):
        return hashlib.sha256(self.seed + before + struct.pack("<i", token)).digest()[:8]

    @staticmethod
    def next(last):
        return last[0] % 200 + 1


class Slot:
    def __init__(self):
        self.lock = threading.Lock()
        self.tokens, self.kv, self.used = [], [], 0.0

    def evaluate(self, model, prompt):
        """The number of tokens that were there already."""
        common = 0
        while common < min(len(prompt) - 1, len(self.tokens)) and \
                self.tokens[common] == prompt[common]:
            common += 1
        self.tokens, self.kv = self.tokens[:common], self.kv[:common]
        for token in prompt[common:]:
            self.push(model, token)
        return common

    def push(self, model, token):
        self.kv.append(model.kv(self.kv[-1] if self.kv else b"", token))
        self.tokens.append(token)


def save(slot, path, old):
    words = array("i", slot.tokens)
    if not old:
        words = array("i", [-1, 1, len(slot.tokens), *slot.tokens, 0])
    data = struct.pack("<III", 0x67677371, 3, len(words)) + words.tobytes() + b"".join(slot.kv)
    Path(path).write_bytes(data)
    return len(data)


def restore(slot, path):
    data = Path(path).read_bytes()
    magic, version, count = struct.unpack_from("<III", data)
    assert (magic, version) == (0x67677371, 3)
    words = array("i", data[12:12 + 4 * count])
    slot.tokens = list(words[3:3 + words[2]] if words and words[0] == -1 else words)
    kv = data[12 + 4 * count:]
    assert len(kv) == 8 * len(slot.tokens)
    slot.kv = [kv[at:at + 8] for at in range(0, len(kv), 8)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "socket"

    def log_message(self, *words):
        pass

    def say(self, status, words):
        data = json.dumps(words).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_one(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.server.options.api_key
        if path == "/health":
            return self.say(200, {"status": "ok"})
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            return self.say(401, {"error": {"code": 401, "message": "Invalid API Key"}})
        try:
            return self.route(path, query, json.loads(body) if body else {})
        except (KeyError, ValueError, AssertionError, OSError) as error:
            return self.say(400, {"error": {"code": 400, "message": repr(error)}})

    do_GET = do_POST = handle_one

    def route(self, path, query, body):
        server = self.server
        if path == "/props":
            return self.say(200, {"total_slots": len(server.slots),
                                  "model_path": server.options.m})
        if path == "/tokenize":
            content = body["content"]
            assert body.get("add_special") is True
            content = content if isinstance(content, list) else [content]
            return self.say(200, {"tokens": [token for one in content for token in
                                             (one.encode() if isinstance(one, str) else [one])]})
        if path == "/apply-template":
            return self.say(200, {"prompt": template(body["messages"])})
        if path.startswith("/slots/"):
            return self.act(int(path[7:]), query, body)
        if path == "/completion":
            prompt = body["prompt"]
            prompt = list(prompt.encode()) if isinstance(prompt, str) else prompt
        elif path == "/v1/chat/completions":
            prompt = list(template(body["messages"]).encode())
        else:
            return self.say(404, {"error": {"code": 404, "message": "File Not Found"}})
        return self.complete(prompt, body)

    def act(self, number, query, body):
        slot = self.server.slots[number]
        name = body["filename"]
        assert "/" not in name
        path = self.server.options.slot_save_path + name
        with slot.lock:
            if query == "action=save":
                size = save(slot, path, self.server.options.old_files)
                return self.say(200, {"id_slot": number, "filename": name, "n_saved":
                                      len(slot.tokens), "n_written": size})
            if self.server.options.refuse_restore:
                slot.tokens, slot.kv = [], []
                raise ValueError("Unable to restore slot")
            restore(slot, path)
            return self.say(200, {"id_slot": number, "filename": name,
                                  "n_restored": len(slot.tokens)})

    def complete(self, prompt, body):
        server = self.server
        number = body.get("id_slot", -1)
        if number < 0:
            number = min(range(len(server.slots)), key=lambda at: server.slots[at].used)
        slot = server.slots[number]
        with slot.lock:
            slot.used = time.monotonic()
            cached = slot.evaluate(server.model, prompt)
            made = []
            if body.get("stream"):
                return self.stream(slot, made, cached, prompt, body.get("n_predict", WORDS))
            gate = server.options.gate
            while gate and not os.path.exists(gate):
                if select.select([self.connection], [], [], 0.01)[0]:
                    return self.gone()
            for _ in range(WORDS):
                self.step(slot, made)
            return self.say(200, self.last(made, cached, prompt, number))

    def step(self, slot, made):
        if made:
            slot.push(self.server.model, made[-1])
        made.append(self.server.model.next(slot.kv[-1]))

    def last(self, made, cached, prompt, number):
        return {"tokens": made, "content": bytes(made).decode("latin-1"), "id_slot": number,
                "stop": True, "timings": {"cache_n": cached, "prompt_n": len(prompt) - cached}}

    def stream(self, slot, made, cached, prompt, words):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for at in range(words):
                self.step(slot, made)
                self.event({"tokens": made[-1:], "stop": False})
                gate = self.server.options.gate
                while at == 0 and gate and not os.path.exists(gate):
                    time.sleep(0.01)
            self.event(self.last(made, cached, prompt, 0))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.gone()

    def gone(self):
        """The client has gone."""
        Path(self.server.options.m + ".gone").touch()
        self.close_connection = True

    def event(self, words):
        data = b"data: " + json.dumps(words).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def template(messages):
    return "".join(f"<{one['role']}>{one['content']}\n" for one in messages)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


def main():
    given = options()
    server = Server(given.host, Handler)
    server.options, server.model = given, Model(given.m)
    server.slots = [Slot() for _ in range(given.np)]
    server.serve_forever()


if __name__ == "__main__":
    main()
