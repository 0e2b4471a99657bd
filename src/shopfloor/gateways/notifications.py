"""Notify people of what needs their attention: in a Slack channel, on an ntfy topic, or by e-mail."""

from __future__ import annotations

import hashlib
import json
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from shopfloor.domain.events import StoredEvent
from shopfloor.errors import BadSettings, DeliveryFailed
from shopfloor.gateways.http_client import RequestFailed, send_request

TIMEOUT_SECONDS = 8
SMTP_PORT, SMTPS_PORT = 587, 465
# What a person has to deal with. Everything else is on the pages, and in webhooks.
EVENTS = frozenset({"mail.sent", "run.asked"})
KINDS = ("slack:", "ntfy:", "mailto:")


@dataclass(frozen=True, slots=True)
class Notice:
    """A short text with a link to the full page."""

    title: str
    link: str


class Notifier:
    """One notification channel, such as `slack:https://hooks.slack.com/…`.

    `page_url` is the base URL of the pages. `smtp_url` is the server that sends e-mail:
    `smtp://user:password@host:587`.
    """

    def __init__(self, address: str, page_url: str, smtp_url: str) -> None:
        self.kind, _, self._target = address.partition(":")
        self._page_url = page_url
        self._smtp_url = smtp_url
        if self.kind == "mailto" and not smtp_url:
            raise BadSettings("notify: mailto needs smtp_url, such as smtp://user:password@host:587")
        place = self._target if self.kind == "mailto" else urlsplit(self._target).netloc.rpartition("@")[2]
        # The URL of a Slack hook and the topic of ntfy are secrets, so the name contains only the host.
        self.name = f"{self.kind} {place} {hashlib.sha256(address.encode()).hexdigest()[:8]}"

    def __call__(self, event: StoredEvent) -> None:
        """Notify people if the event needs attention; raise DeliveryFailed if the notice cannot be delivered."""
        if event.name == "run.asked":
            item = f"request-{event.data['request']}"
            self.send(Notice(f"{event.data['run']} asks for your decision", f"{self._page_url}/inbox/{item}"))
        elif event.data.get("isForHuman"):
            self.send(Notice(str(event.data["subject"]), f"{self._page_url}/inbox/{event.data['mailId']}"))

    def send_test(self) -> None:
        """Send a test notice, or raise DeliveryFailed."""
        self.send(Notice("Test: notifications of Shopfloor arrive here", f"{self._page_url}/inbox"))

    def send(self, notice: Notice) -> None:
        """Send a notice, or raise DeliveryFailed."""
        match self.kind:
            case "slack":
                self._post(self._target, {"text": f"{_escape_slack(notice.title)}\n<{notice.link}>"})
            case "ntfy":
                server, _, topic = self._target.rstrip("/").rpartition("/")
                self._post(
                    server, {"topic": topic, "title": notice.title, "message": notice.link, "click": notice.link}
                )
            case _:
                self._send_mail(notice)

    def _post(self, url: str, content: dict[str, str]) -> None:
        try:
            response = send_request(
                "POST",
                url,
                content=json.dumps(content).encode(),
                headers={"Content-Type": "application/json"},
                timeout=TIMEOUT_SECONDS,
                total_seconds=TIMEOUT_SECONDS,
                max_bytes=0,
            )
        except RequestFailed as error:
            raise DeliveryFailed(f"{self.kind} cannot be reached: {error}") from None
        if not response.is_success:
            raise DeliveryFailed(f"{self.kind} answered {response.status}")

    def _send_mail(self, notice: Notice) -> None:
        parts = urlsplit(self._smtp_url)
        host, user = parts.hostname or "", unquote(parts.username or "")
        message = EmailMessage()
        # A line break in a subject would start another header; EmailMessage rejects it.
        message["Subject"] = " ".join(notice.title.split())
        message["To"] = self._target
        message["From"] = user if "@" in user else f"shopfloor@{host}"
        message.set_content(f"{notice.title}\n\n{notice.link}\n")
        try:
            with self._connect(parts.scheme, host, parts.port) as server:
                if user:
                    if not isinstance(server.sock, ssl.SSLSocket):
                        raise DeliveryFailed("The mail server offers no encryption, so the password was not sent")
                    server.login(user, unquote(parts.password or ""))
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryFailed(f"The mail server rejected the message: {error}") from None

    def _connect(self, scheme: str, host: str, port: int | None) -> smtplib.SMTP:
        if scheme == "smtps":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(host, port or SMTPS_PORT, timeout=TIMEOUT_SECONDS, context=context)
        server = smtplib.SMTP(host, port or SMTP_PORT, timeout=TIMEOUT_SECONDS)
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
        return server


def _escape_slack(text: str) -> str:
    """Escape the characters that Slack reads as markup: agents write the subjects."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
