"""Notifications: each place gets what it understands, only for what needs a person, and no markup of agents."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from shopfloor.domain.events import StoredEvent
from shopfloor.errors import BadSettings, DeliveryFailed
from shopfloor.gateways.notifications import Notifier

PAGES = "https://floor.example"


class Receiver(ThreadingHTTPServer):
    """Records what is posted, and answers with a status that tests choose."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Record)
        self.posted: list[tuple[str, dict[str, str]]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Record(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _event(name: str, **data: object) -> StoredEvent:
    return StoredEvent(id=1, name=name, data=data, reference=None, created_at=0, tries=0)


def _mail(subject: str, *, for_human: bool = True) -> StoredEvent:
    return _event("mail.sent", mailId="mail-3", isForHuman=for_human, subject=subject)


def test_slack_gets_the_subject_with_markup_escaped_and_a_link(receiver: Receiver) -> None:
    Notifier(f"slack:{receiver.url}/services/T/B", PAGES, "")(_mail("Which <!channel> & when?"))
    text = "Which &lt;!channel&gt; &amp; when?\n<https://floor.example/inbox/mail-3>"
    assert receiver.posted == [("/services/T/B", {"text": text})]


def test_ntfy_gets_topic_title_and_link(receiver: Receiver) -> None:
    Notifier(f"ntfy:{receiver.url}/my-topic", PAGES, "")(_event("run.asked", run="night", request=4))
    link = "https://floor.example/inbox/request-4"
    content = {"topic": "my-topic", "title": "night asks for your decision", "message": link, "click": link}
    assert receiver.posted == [("/", content)]


def test_mail_between_agents_notifies_no_person(receiver: Receiver) -> None:
    Notifier(f"slack:{receiver.url}/x", PAGES, "")(_mail("Among us", for_human=False))
    assert receiver.posted == []


def test_a_rejected_notice_is_a_failed_delivery(receiver: Receiver) -> None:
    receiver.status = 500
    with pytest.raises(DeliveryFailed, match="slack answered 500"):
        Notifier(f"slack:{receiver.url}/x", PAGES, "").send_test()
    with pytest.raises(DeliveryFailed, match="ntfy cannot be reached"):
        Notifier("ntfy:http://127.0.0.1:1/topic", PAGES, "").send_test()


def test_the_name_of_a_place_hides_its_secret() -> None:
    name = Notifier("slack:https://hooks.slack.com/services/T/SECRET", PAGES, "").name
    assert name.startswith("slack hooks.slack.com ")
    assert "SECRET" not in name


def test_email_needs_a_mail_server() -> None:
    with pytest.raises(BadSettings, match="mailto needs smtp_url"):
        Notifier("mailto:you@example.org", PAGES, "")


class _Mailbox(socketserver.StreamRequestHandler):
    """Takes one message over SMTP, without encryption."""

    messages: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        while line := self.rfile.readline().decode():
            command = line.split(None, 1)[0].upper()
            if command == "DATA":
                self.wfile.write(b"354 go on\r\n")
                body = list(iter(lambda: self.rfile.readline().decode(), ".\r\n"))
                self.messages.append("".join(body))
            self.wfile.write(b"221 bye\r\n" if command == "QUIT" else b"250 ok\r\n")
            if command == "QUIT":
                return


@pytest.fixture
def mailbox() -> Iterator[tuple[int, list[str]]]:
    handler = type("Handler", (_Mailbox,), {"messages": []})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], handler.messages  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def test_an_email_has_subject_and_link_and_no_second_header(mailbox: tuple[int, list[str]]) -> None:
    port, messages = mailbox
    Notifier("mailto:you@example.org", PAGES, f"smtp://127.0.0.1:{port}")(_mail("Ready?\r\nBcc: all@example.org"))
    headers, _, body = messages[0].partition("\r\n\r\n")
    assert "Subject: Ready? Bcc: all@example.org" in headers
    assert "\r\nBcc:" not in headers
    assert "https://floor.example/inbox/mail-3" in body


def test_a_password_is_not_sent_without_encryption(mailbox: tuple[int, list[str]]) -> None:
    port, messages = mailbox
    with pytest.raises(DeliveryFailed, match="no encryption"):
        Notifier("mailto:you@example.org", PAGES, f"smtp://me:secret@127.0.0.1:{port}").send_test()
    assert messages == []
