# SPDX-License-Identifier: Apache-2.0
"""The HTTP proxy in front of llama-server.

All requests are passed on, and all answers passed back as they come, streams piece by piece. A
completion whose prompt we can make tokens of is given a slot of ours. What we can't read is passed
on as it is: llama-server says what is wrong with it.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
from array import array
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

from ._slots import Slot, Slots

BODY_MAX = 256 << 20
PIECE = 64 << 10
IDLE = 300.0  # Seconds that a client may take for a request, or to read an answer.
FACTS = "/spillway/slots"
TEXT = ("/completion", "/completions", "/v1/completions")
CHAT = ("/chat/completions", "/v1/chat/completions")
# What changes the KV of slots in ways that the namespace does not name.
_CHANGING = ("/slots/", "/lora-adapters", "/models")
# Headers that concern one connection, not the request.
_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "expect"}


class Refused(Exception):
    """llama-server answered with an error."""


class Upstream(http.client.HTTPConnection):
    """A connection to llama-server, over its Unix socket."""

    def __init__(self, path: str, timeout: float | None):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.timeout)
        try:
            sock.connect(self._path)
        except OSError:
            sock.close()
            raise
        self.sock = sock


def asker(path: str) -> Any:
    """Calls of our own to llama-server: JSON there and back, within a time."""
    def ask(method: str, target: str, body: Any, login: str | None, timeout: float) -> Any:
        headers = {"Content-Type": "application/json"}
        if login:
            headers["Authorization"] = login
        upstream = Upstream(path, timeout)
        try:
            upstream.request(method, target, None if body is None else json.dumps(body), headers)
            answer = upstream.getresponse()
            data = answer.read(BODY_MAX)
        finally:
            upstream.close()
        if answer.status != 200:
            raise Refused(f"{method} {target}: {answer.status} {data[:200]!r}")
        return json.loads(data)
    return ask


class Prompts:
    """The tokens of a request's prompt, as llama-server will make them."""

    def __init__(self, ask: Any, wait: float):
        self._ask, self._wait = ask, wait

    def tokens(self, path: str, body: Any, login: str | None) -> array[int] | None:
        """None: there is no one prompt of text."""
        if path in CHAT:
            if not _only_text(body.get("messages")):
                return None
            prompt = self._ask("POST", "/apply-template", body, login, self._wait)["prompt"]
        else:
            prompt = body.get("prompt")
        if isinstance(prompt, list) and not _one_prompt(prompt) or \
                not isinstance(prompt, (str, list)) or not prompt:
            return None
        if isinstance(prompt, str) or any(isinstance(one, str) for one in prompt):
            asked = {"content": prompt, "add_special": True, "parse_special": True}
            prompt = self._ask("POST", "/tokenize", asked, login, self._wait)["tokens"]
        return array("i", prompt)


def _one_prompt(prompt: list[Any]) -> bool:
    """Whether a list is one prompt, of tokens and text, and not several."""
    numbers = [type(one) is int for one in prompt]
    return any(numbers) and all(number or isinstance(one, str)
                                for number, one in zip(numbers, prompt))


def _only_text(messages: Any) -> bool:
    """Whether a chat has neither images nor sound."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and any(
                not isinstance(part, dict) or part.get("type") != "text" for part in content):
            return False
    return True


def changes_slots(path: str, body: Any) -> str:
    """Why slots may hold something else from now on, or ""."""
    if path.startswith(_CHANGING):
        return f"a client has sent POST {path[:40]}"
    if isinstance(body, dict) and body.get("lora"):
        return "a request has chosen an adapter"
    if isinstance(body, dict) and body.get("n_cache_reuse"):
        return "a request reuses KV at other positions"
    return ""


def wants_help(path: str, body: Any) -> bool:
    """Whether this is a completion for one slot of our choice."""
    if path not in TEXT + CHAT or not isinstance(body, dict) or "id_slot" in body:
        return False
    several = any(body.get(name) not in (None, 1) for name in ("n", "n_cmpl", "best_of"))
    return body.get("cache_prompt", True) is True and not several


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE
    server: Proxy

    def log_message(self, format: str, *args: Any) -> None:
        """llama-server logs its requests."""

    def _pass(self) -> None:
        body = self._body()
        if body is None:
            return
        path = self.path.partition("?")[0]
        if path == FACTS and self.command == "GET":
            self._say(200, self.server.slots.facts())
            return
        slot = tokens = None
        login = self.headers.get("Authorization")
        if self.command == "POST":
            slot, tokens = self.server.help(path, body, login)
            if slot is not None:
                body = b'{"id_slot":%d,' % slot.number + body.lstrip()[1:]

        def release(good: bool) -> None:
            nonlocal slot
            if slot is not None and tokens is not None:
                self.server.slots.leave(slot, tokens, good, login)
                slot = None
        try:
            self._forward(body, release)
        finally:
            release(False)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _pass

    def _say(self, status: int, facts: dict[str, Any]) -> None:
        data = json.dumps(facts).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        self._say(status, {"error": {"code": status, "message": why, "type": "spillway_error"}})

    def _body(self) -> bytes | None:
        """The request's body. None: it was refused."""
        if "Transfer-Encoding" in self.headers:
            self._refuse(411, "a request to llama-slots needs a Content-Length")
            return None
        said = self.headers.get("Content-Length", "0")
        if not (said.isascii() and said.isdigit()) or int(said) > BODY_MAX:
            self._refuse(413, f"a request may have {BODY_MAX} bytes")
            return None
        return self.rfile.read(int(said))

    def _forward(self, body: bytes, release: Callable[[bool], None]) -> None:
        """Passes the request on and its answer back. Calls `release` when the slot is free again,
        with whether llama-server served the request.
        """
        upstream = Upstream(self.server.upstream, None)
        self._begun = answered = False
        try:
            upstream.putrequest(self.command, self.path, skip_host="Host" in self.headers,
                                skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP:
                    upstream.putheader(name, value)
            if body or self.command in ("POST", "PUT", "PATCH"):
                upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body or None)
            if not self._wait_for(upstream.sock):
                self.close_connection = True  # The client has gone; llama-server sees that, too.
                return
            answer = upstream.getresponse()
            answered = True
            self._answer(answer, release)
        except (OSError, http.client.HTTPException) as error:
            if answered:  # A part was sent: all that is left is to end.
                self.close_connection = True
            else:
                self._refuse(502, f"llama-server does not answer: {type(error).__name__}")
        finally:
            upstream.close()
            # A client that goes in the middle ends the answer, not what the slot holds of the
            # prompt.
            release(answered and answer.status == 200 and self._begun)

    def _wait_for(self, upstream: socket.socket) -> bool:
        """Waits for the answer's beginning. False: the client has gone."""
        watch = select.poll()
        watch.register(upstream, select.POLLIN)
        watch.register(self.connection, select.POLLIN)
        while True:
            if upstream.fileno() in (file for file, _ in watch.poll()):
                return True
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    return False
            except OSError:
                return False
            watch.unregister(self.connection)  # The client's next request is there; it waits.

    def _answer(self, answer: http.client.HTTPResponse, release: Callable[[bool], None]) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = answer.length
        none = self.command == "HEAD" or answer.status in (204, 304)
        chunked = length is None and not none and self.request_version != "HTTP/1.0"
        if length is not None and not none:
            self.send_header("Content-Length", str(length))
        elif none and answer.getheader("Content-Length"):
            self.send_header("Content-Length", answer.getheader("Content-Length", "0"))
        elif chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif not none:
            self.close_connection = True
        self.end_headers()
        while data := answer.read1(PIECE):
            self._begun = True
            if length is not None and not answer.length:
                release(answer.status == 200)  # The client may ask again when it has the last byte.
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        if length is not None and answer.length:
            raise http.client.IncompleteRead(b"")
        if chunked:
            release(answer.status == 200 and self._begun)
            self.wfile.write(b"0\r\n\r\n")


class Proxy(ThreadingHTTPServer):
    """Listens, and has a thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], upstream: str, slots: Slots, wait: float):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)
        self.upstream, self.slots = upstream, slots
        self._ask, self._wait = asker(upstream), wait
        self._prompts = Prompts(self._ask, wait)

    def _is_let_in(self, login: str | None) -> bool:
        """Whether llama-server takes this login; without one it may need none."""
        try:
            self._ask("GET", "/props", None, login, self._wait)
        except Exception:
            return False
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is nothing to report."""

    def help(self, path: str, raw: bytes, login: str | None) -> tuple[Slot | None, Any]:
        """A slot for a completion, with as much of its prompt as could be restored; and the
        prompt's tokens. Never raises.
        """
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            body = None
        why = changes_slots(path, body)
        if why and not self.slots.off and self._is_let_in(login):
            self.slots.stand_down(why)
        if path not in TEXT + CHAT:
            return None, None
        self.slots.count("requests")
        slot = tokens = None
        if not self.slots.off and wants_help(path, body):
            try:
                if not self.slots.known:
                    props = self._ask("GET", "/props", None, login, self._wait)
                    self.slots.learn(int(props["total_slots"]))
                tokens = self._prompts.tokens(path, body, login)
                if tokens is not None:
                    slot = self.slots.enter(tokens, login)
            except Exception as error:  # llama-server is still starting, or refuses the request.
                self.slots.fault(error)
        if slot is None:
            self.slots.count("passed")
        return slot, tokens
