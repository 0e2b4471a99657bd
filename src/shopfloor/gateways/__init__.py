"""Everything outside the store: files, programs, models, the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shopfloor.gateways.copies import Copies
    from shopfloor.gateways.embedding_model import ModelCache
    from shopfloor.gateways.files import Files
    from shopfloor.gateways.grep import Grep
    from shopfloor.gateways.import_resolver import ImportResolver
    from shopfloor.gateways.metrics import Metrics
    from shopfloor.gateways.notifications import Notifier
    from shopfloor.gateways.tokens import UserTokens


@dataclass(frozen=True, slots=True)
class Gateways:
    """The outside world of one server; units of work carry it to tools and use cases."""

    files: Files
    grep: Grep
    import_resolver: ImportResolver
    user_tokens: UserTokens
    metrics: Metrics
    model_cache: ModelCache
    copies: Copies
    notifiers: tuple[Notifier, ...]
