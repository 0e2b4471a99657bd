"""Settings: users and tokens."""

from __future__ import annotations

import asyncio

from shopfloor.toolkit import Json
from shopfloor.web.views.view import LOCAL, Given
from shopfloor.web.visitor import Visitor

# Lines for shopfloor.toml, ready to be filled in.
PRESETS = (
    ("Slack", 'notify = ["slack:https://hooks.slack.com/services/T000/B000/XXXX"]'),
    ("ntfy", 'notify = ["ntfy:https://ntfy.sh/your-secret-topic"]'),
    ("E-mail", 'notify = ["mailto:you@example.org"]\nsmtp_url = "smtp://user:password@mail.example.org:587"'),
    ("Any other program", 'webhooks = ["https://example.org/hook"]'),
)


async def load_access(visitor: Visitor, given: Given) -> Json:
    """Load users and tokens."""
    users, tokens = await asyncio.gather(
        visitor.ask("user_list", cursor=given.get("users")),
        visitor.ask("token_list", cursor=given.get("tokens")),
    )
    # The built-in user is the operator, who is not a member.
    users["users"] = [user for user in users["users"] if user["id"] != LOCAL]
    return {"users": users, "tokens": tokens, "is_open": not visitor.needs_credential()}


async def load_notifications(visitor: Visitor, _: Given) -> Json:
    """Load the notification targets."""
    return {"places": (await visitor.ask("notify_list"))["places"], "presets": PRESETS}
