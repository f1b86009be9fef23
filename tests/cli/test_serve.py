"""`labkit serve` as a learner runs it: a process of its own, real sockets, real signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from urllib.request import ProxyHandler, build_opener

import pytest

from labkit.cli import main
from labkit.errors import ServiceError
from labkit.services import HttpService, HttpServiceThread

LIMIT = 30
OPEN = build_opener(ProxyHandler({})).open
posix = pytest.mark.skipif(os.name != "posix", reason="signals of this kind exist on POSIX only")


@contextmanager
def serving(*words, command=None, **settings):
    """A running `labkit serve`, its URL once it listens; killed at the end if a test failed to stop it."""
    command = command or [sys.executable, "-m", "labkit", "serve", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings)
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    try:
        process.told = "".join(process.stdout.readline() for _ in range(4))
        process.url = next((word for word in process.told.split() if word.startswith("http://")), None)
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def end(process):
    """What was printed after the first lines, what went to stderr, and the exit status."""
    out, err = process.communicate(timeout=LIMIT)
    return out, err, process.returncode


def get(url):
    """A GET without any proxy."""
    with OPEN(url, timeout=LIMIT) as response:
        return json.load(response)


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("hanging", [False, True])
def test_it_serves_until_it_is_stopped(number, hanging):
    """It prints its URL and how to stop it; a signal ends it clean with status 0, also while a request hangs."""
    with serving("--port", "0", "--fault", "hang" if hanging else "healthy") as process:
        if hanging:
            client = socket.create_connection(("127.0.0.1", int(process.url.rpartition(":")[2])))
            client.sendall(b"GET /parts/HX-2040 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not get(process.url + "/health")["in_flight"]:
                pass
        else:
            assert get(process.url + "/parts/HX-2040")["quantity"] == 42
        process.send_signal(number)
        out, err, status = end(process)
        if hanging:
            client.close()
    assert (err, status) == ("", 0)
    assert "Stop it:    Ctrl-C" in process.told
    assert out.strip() == "Stopped."


def test_it_ends_by_itself():
    """After --stop-after seconds it has ended with status 0 and says so."""
    with serving("--port", "0", "--stop-after", "0.2") as process:
        out, err, status = end(process)
    assert (err, status) == ("", 0)
    assert "Stopped by itself after 0.2 s" in out


def test_another_shell_switches_it(capsys):
    """`labkit serve --set FAULT --port N` switches a running one; the printed line tells how."""
    with serving("--port", "0") as process:
        port = process.url.rpartition(":")[2]
        assert main(["serve", "--set", "Connection-Error", "--port", port]) == 0
        assert capsys.readouterr().out == f"http://127.0.0.1:{port} is now: connection_error\n"
        assert get(process.url + "/fault")["fault"] == "connection_error"
        assert f"labkit serve --set hang --port {port}\n" in process.told


@posix
@pytest.mark.parametrize("spare", [32, -1000], ids=["the most", "no descriptor left"])
def test_more_connections_than_descriptors_are_one_line(spare):
    """With 64 file descriptors, 150 connections bring one line on stderr; those that wait are served in the end."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); import labkit.cli;"
        f"from labkit.services.http import server; server.SPARE_FILES = {spare};"
        "sys.exit(labkit.cli.main(['serve', '--port', '0']))"
    )
    with serving(command=[sys.executable, "-c", limited]) as process:
        address = ("127.0.0.1", int(process.url.rpartition(":")[2]))
        clients = [socket.create_connection(address) for _ in range(150)]
        said = process.stderr.readline()
        for client in clients[:-1]:
            client.close()
        clients[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with clients[-1] as last, last.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        process.send_signal(signal.SIGTERM)
        _, more, status = end(process)
    assert "lets further clients wait: " in said
    assert (more, status) == ("", 0)


def refused(capsys, *words):
    """The one sentence with which the command refuses (status 2)."""
    status = main(["serve", *words])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert captured.err.startswith("labkit: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_port_in_use_is_a_sentence(capsys):
    """A taken port says which, and what to do."""
    with HttpServiceThread() as server:
        said = refused(capsys, "--port", str(server.port))
        assert f"port {server.port} of 127.0.0.1 is in use by another program; choose another port, or 0" in said


def test_nothing_to_switch_is_a_sentence(capsys):
    """--set where nothing listens says how to start one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        said = refused(capsys, "--set", "hang", "--port", str(port))
    assert f"nothing listens on http://127.0.0.1:{port}; start one with 'labkit serve --port {port}'" in said


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
        b'HTTP/1.1 404 Not Found\r\ncontent-length: 13\r\n\r\n{"fault": "x"}',
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 50_000,
    ],
)
def test_what_is_no_labkit_service_is_not_switched(capsys, answer):
    """--set on the port of some other program is a sentence, whatever that program answers."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def reply():
            client, _ = other.accept()
            with client:
                client.recv(65_536)
                client.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        said = refused(capsys, "--set", "hang", "--port", str(other.getsockname()[1]))
        thread.join()
    assert "is not a labkit service" in said


def test_a_silent_program_is_given_up(capsys, monkeypatch):
    """--set waits a few seconds for an answer and then says so."""
    monkeypatch.setattr("labkit.cli.serve.SWITCH_LIMIT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refused(capsys, "--set", "hang", "--port", str(silent.getsockname()[1]))
    assert "did not answer within 0.05 s" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fault", "hnag"], "did you mean 'hang'?"),
        (["--set", "eror"], "did you mean 'error'?"),
        (["--set", "hang", "--fault", "slow"], "belong to starting one"),
        (["--set", "hang", "--stop-after", "3"], "belong to starting one"),
        (["--set", "hang", "--port", "0"], "needs the number that 'labkit serve' printed"),
        (["--port", "70000"], "from 0 (any free one) to 65535"),
        (["--stop-after", "0"], "above 0"),
        (["--stop-after", "nan"], "above 0"),
    ],
)
def test_bad_words_are_one_sentence(capsys, words, said):
    """A misspelt fault or an impossible number is one sentence, and nothing is started."""
    assert said in refused(capsys, *words)


def test_a_missing_extra_is_a_sentence():
    """Where h11 is not installed the command says which install line brings it, with status 2."""
    code = (
        "import sys; sys.modules['h11'] = None; from labkit.cli import main; sys.exit(main(['serve', '--port', '0']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'pip install "labkit-circuit-breakers[http]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_switching_needs_no_extra():
    """--set works with what every Python has."""
    with HttpServiceThread() as server:
        code = (
            "import sys; sys.modules['h11'] = sys.modules['httpx2'] = None; from labkit.cli import main;"
            f"sys.exit(main(['serve', '--set', 'hang', '--port', '{server.port}']))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, done.stderr) == (0, "")
        assert str(server.service.fault) == "hang"


@posix
def test_a_reader_that_goes_away_ends_it_quietly():
    """`labkit serve | true` ends without a traceback and without a server left behind."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "labkit", "serve", "--port", "0"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_help_names_every_fault(capsys):
    """--help lists the faults and the exit statuses."""
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "mid_stream_death" in out
    assert "Exit status: 0" in out


def test_the_sentence_is_a_service_error():
    """What the command prints is the same exception that the class raises."""
    with pytest.raises(ServiceError, match="there is no fault 'hnag'"):
        HttpService("hnag")
