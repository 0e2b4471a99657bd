"""Outgoing requests: no redirects, limits on time and size, and one error for all failures."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from shopfloor.gateways.http_client import RequestFailed, Response, is_public_address, send_request
from tests.gateways.receiver import start_receiver

TIMEOUT = 30


def test_request_is_sent_with_its_headers_and_body():
    with start_receiver(201, b"made") as receiver:
        response = send_request(
            "POST", f"{receiver.url}/x?y=1", timeout=TIMEOUT, max_bytes=100, content=b"sent", headers={"X-Y": "z"}
        )
        [(method, path, headers, content)] = receiver.requests
    assert (response, response.is_success) == (Response(201, b"made"), True)
    assert (method, path, content, headers["x-y"]) == ("POST", "/x?y=1", b"sent", "z")
    assert (headers["user-agent"], headers["accept-encoding"]) == ("shopfloor", "identity")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_redirects_are_not_followed(method: str, status: int):
    with start_receiver() as elsewhere, start_receiver(status, Location=elsewhere.url) as receiver:
        response = send_request(method, receiver.url, timeout=TIMEOUT, max_bytes=100)
        assert (response.status, response.is_success) == (status, False)
        assert elsewhere.requests == []


@pytest.mark.parametrize(("limit", "size"), [(0, 0), (5, 5), (10**6, 10**6), (10**7, 10**6)])
def test_response_body_is_read_up_to_the_limit(limit: int, size: int):
    with start_receiver(body=b"x" * 10**6) as receiver:
        assert send_request("GET", receiver.url, timeout=TIMEOUT, max_bytes=limit).body == b"x" * size


def test_silent_server_times_out():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RequestFailed):
            send_request("GET", url, timeout=0.1, max_bytes=100)


def test_response_without_a_body_limit_ends_with_its_status():
    """Accept the response of a receiver that sends its status and then hangs."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
            done.wait(TIMEOUT)
            connection.close()

        done = threading.Event()
        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        try:
            assert send_request("GET", url, timeout=TIMEOUT, max_bytes=0).status == 200
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "file:///etc/passwd", "nonsense", "http://[", "http://a b/"])
def test_unreachable_url_raises_request_failed(url: str):
    with pytest.raises(RequestFailed) as failed:
        send_request("GET", url, timeout=TIMEOUT, max_bytes=100)
    assert str(failed.value)


def test_response_that_is_not_http_raises_request_failed():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(65536)
            connection.sendall(b"220 mail.example ESMTP\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RequestFailed):
            send_request("GET", f"http://127.0.0.1:{server.getsockname()[1]}", timeout=TIMEOUT, max_bytes=100)
        thread.join()


@pytest.mark.parametrize("resolving", [0.0, 0.4])
def test_dripping_server_is_ended_by_the_total_time_limit(monkeypatch: pytest.MonkeyPatch, resolving: float):
    """End the request also if a slow name server used up its time."""
    resolve = socket.getaddrinfo

    def resolve_slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(resolving)
        return resolve(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with suppress(OSError), connection:
                connection.send(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                while not stop.wait(0.02):
                    connection.send(b"x")

        dripping = threading.Thread(target=drip)
        dripping.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RequestFailed, match=r"No complete response within 0.3 s"):
            send_request("GET", url, timeout=5, total_seconds=0.3, max_bytes=10)
        stop.set()
        dripping.join()


@pytest.mark.parametrize("prefix", ["{}", "::ffff:{}", "64:ff9b::{}", "::{}"])
def test_private_address_is_recognized_inside_an_address_of_ipv6(prefix: str):
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1"):
        assert not is_public_address(prefix.format(address))
    assert is_public_address(prefix.format("8.8.8.8"))


@pytest.mark.parametrize(
    "address", ["::1", "::", "fe80::1%eth0", "fc00::1", "fec0::1", "2002:a00:1::1", "ff02::1", "224.0.0.1", "0.0.0.0"]
)
def test_address_of_no_public_host_is_recognized(address: str):
    assert not is_public_address(address)


def test_public_address_of_ipv6_is_recognized():
    assert is_public_address("2606:4700::1111")
    assert is_public_address("2002:808:808::1")
