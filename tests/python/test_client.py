# SPDX-License-Identifier: Apache-2.0
"""Client: the same methods, over a running spillwayd."""

import os
import re
import socket
import threading
import urllib.parse

import pytest

import spillway
from conftest import run_python


@pytest.fixture(params=["socket", "tcp"])
def client(daemon, request):
    path, port = daemon
    made = spillway.Client(socket=path) if request.param == "socket" else \
        spillway.Client(f"redis://127.0.0.1:{port}")
    with made:
        made.clear()
        yield made


def test_one_key(client):
    assert client.set("k", b"value", tokens=5, agent="a", meta=b"m", hint="again") is True
    assert bytes(client.get("k")) == b"value" and client.get("nowhere") is None
    assert client.facts("k") == {"tokens": 5, "generation": client.facts("k")["generation"],
                                 "agent": "a", "meta": b"m", "bytes": 5}
    assert "k" in client and client.contains("k") and len(client) == 1
    into = bytearray(8)
    assert client.get("k", into=into) == 5 and into[:5] == b"value"
    assert client.touch("k", hint="done") is True and client.touch("x") is False
    assert client.delete("k") is True and client.delete("k") is False
    client["j"] = b"v"
    assert bytes(client["j"]) == b"v"
    with pytest.raises(KeyError):
        client["nowhere"]


def test_what_is_said_of_the_next_use(client):
    client.set("k", b"v", hint="again", eta=30, step="tool", recompute=2.5)
    assert bytes(client.get("k", step="human", hint="done", eta=1.5)) == b"v"
    assert client.touch("k", step="tool", eta=5) is True
    with pytest.raises(spillway.KeyTypeError, match="step"):
        client.touch("k", step=3)


def test_large_values_and_pieces(client, monkeypatch):
    value = os.urandom(3 << 20)
    client.set("k", value, tokens=1)
    assert bytes(client.get("k")) == value
    monkeypatch.setattr("spillway.client._PIECE", 1 << 20)
    client.set("pieces", value + b"x", tokens=1)
    assert bytes(client.get("pieces")) == value + b"x"


def test_many_keys(client):
    client.set("a", b"1")
    client.set("b", b"2", parent="a")
    assert client.match(["a", "b", "c"]) == 2 and client.prefetch(["a"]) == 1
    assert client.contains_many(["a", "x"]) == [True, False]
    assert [None if view is None else bytes(view) for view in client.get_many(["a", "x"])] == \
        [b"1", None]
    assert client.match([]) == 0 and client.get_many([]) == []


def test_answers(client):
    client.set("k", b"x", tokens=3)
    assert client.total_tokens >= 3 and client.size >= 1
    assert client.mode is spillway.Mode.RELAXED and client.level is spillway.Mode.RELAXED
    assert not client.is_blocked and 0 <= client.pressure <= 1
    assert "device tier" in client.explain("k")
    assert client.reclaim(1).freed >= 0 and client.stats()["sets"] > 0


def test_the_daemons_graph(client):
    graph = client.step_graph
    run = graph.load({"run": f"r{os.getpid()}", "steps": [{"id": "plan"}, {"id": "act"}],
                      "edges": [{"from": "plan", "to": "act"}],
                      "bind": [{"agent": "act", "key": "k"}]})
    with graph.step(run, "plan"):
        assert graph.steps(run) == {"plan": 0, "act": 1}
    assert "k" in graph.eviction_order()
    graph.end(run)


def test_bad_input(client, daemon, tmp_path):
    with pytest.raises(spillway.KeyTypeError):
        client.get(3)
    with pytest.raises(spillway.ValueTypeError):
        client.set("k", "text")
    with pytest.raises(spillway.InvalidArgument):
        client.set("k" * 70000, b"x")
    with pytest.raises(spillway.Unavailable, match="no spillwayd answers"):
        spillway.Client(socket=tmp_path / "nobody")
    with pytest.raises(spillway.InvalidArgument, match="redis://"):
        spillway.Client("http://localhost")
    client.close()
    with pytest.raises(spillway.Closed):
        client.get("k")


def test_a_broken_connection_is_made_anew(client):
    client.set("k", b"v")
    client._wire.sock.close()
    with pytest.raises(spillway.Unavailable):
        client.get("k")
    assert bytes(client.get("k")) == b"v"


def test_a_child_has_a_connection_of_its_own(client):
    client.set("k", b"v")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if bytes(client.get("k")) == b"v" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert bytes(client.get("k")) == b"v"


# --- URLs and passwords ---

PASSWORDS = ["plain", "p@ss", "a:b", "a/b", "a%2Fb", "100%", "a b+c", "#?&=", "größe", "%41",
             b"\xff\xfe\x01"]


@pytest.mark.parametrize("password", PASSWORDS, ids=repr)
def test_a_password_in_a_url_is_percent_decoded(locked_daemon, password):
    path, port, admin = locked_daemon
    admin("CONFIG", "SET", "requirepass", password)
    quoted = urllib.parse.quote(password, safe="")
    for url in (f"redis://:{quoted}@127.0.0.1:{port}", f"unix://:{quoted}@{path}",
                f"redis://default:{quoted}@localhost:{port}/0"):
        with spillway.Client(url) as client:
            assert client.set("k", b"v") is True
    with spillway.Client(socket=path, password=password) as client:  # As it is.
        assert bytes(client.get("k")) == b"v"
    with pytest.raises(spillway.Unavailable, match="WRONGPASS"):
        spillway.Client(f"redis://:{quoted}x@127.0.0.1:{port}")


def test_the_password_of_a_url_comes_before_the_argument(locked_daemon):
    path, port, admin = locked_daemon
    admin("CONFIG", "SET", "requirepass", "right")
    spillway.Client(f"redis://:right@127.0.0.1:{port}", password="wrong").close()
    spillway.Client(f"redis://127.0.0.1:{port}", password="right").close()
    spillway.Client(f"redis://:@127.0.0.1:{port}", password=b"right").close()


@pytest.mark.parametrize("url", [
    "redis://:se/cret@127.0.0.1:7379", "redis://:12/cret@127.0.0.1:7379",
    "redis://:se#cret@127.0.0.1", "redis://:se?cret@127.0.0.1:7379", "redis://:secret@host:x1",
    "http://:secret@127.0.0.1:7379", "redis://:secret@127.0.0.1:70000", "redis://[:secret@::1",
    "unix://:secret@host/run/s.sock", "unix://:secret@", "redis://:secret@127.0.0.1:0",
    "redis://:secret@127.0.0.1/one", "redis://:secret@127.0.0.1/99"])
def test_a_url_that_is_wrong_is_refused_and_its_password_is_not_shown(url):
    with pytest.raises(spillway.InvalidArgument) as said:
        spillway.Client(url)
    assert "cret" not in str(said.value) and said.value.__cause__ is None
    assert re.search(r"url|port|database", str(said.value))


def test_a_url_may_name_a_database(locked_daemon):
    path, port, admin = locked_daemon
    admin("CONFIG", "SET", "requirepass", "")
    with spillway.Client(f"redis://127.0.0.1:{port}/3") as third, \
            spillway.Client(f"redis://127.0.0.1:{port}") as first:
        third.set("only here", b"3")
        assert third.contains("only here") and not first.contains("only here")
        third.clear()
        assert len(third) == 0


def test_a_daemon_that_greets_nobody_is_given_up_in_time():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(spillway.Unavailable, match="no answer in time"):
            spillway.Client(port=deaf.getsockname()[1], timeout=0.05)


def test_it_needs_no_library():
    assert run_python("import spillway, spillway.client\n"
                      "assert spillway.client.Client is spillway.Client\n"
                      "try: spillway.Cache\n"
                      "except spillway.Unavailable as error: print(error)",
                      SPILLWAY_LIBRARY="/nowhere/lib.so").startswith("the library of Spillway")


@pytest.mark.parametrize("answer", [b"", b"-"])
def test_what_hangs_up_at_once_is_no_spillwayd(tmp_path, answer):
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(60)

        def hang_up():
            taken = listener.accept()[0]
            taken.sendall(answer)  # Its request is not read: what comes of it is a reset.
            taken.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(spillway.Unavailable, match="no spillwayd answers at .*s.sock"):
            spillway.Client(socket=path)
        thread.join(60)
