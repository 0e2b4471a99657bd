"""Tools for notification channels."""

from __future__ import annotations

from shopfloor.errors import DeliveryFailed
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases.external import ExternalContext


@toolset.tool("notify_list", read_only=True, external=True)
def list_notifiers(external: ExternalContext) -> Json:
    """List the notification channels, without their secrets."""
    return {"places": [{"name": each.name, "kind": each.kind} for each in external.gateways.notifiers]}


@toolset.tool("notify_test", external=True, admin=True)
def send_test(external: ExternalContext) -> Json:
    """Send a test to every notification channel, and return which ones accepted it."""
    results = []
    for notifier in external.gateways.notifiers:
        error = None
        try:
            notifier.send_test()
        except DeliveryFailed as failed:
            error = failed.message
        results.append({"name": notifier.name, "kind": notifier.kind, "error": error})
    sent = sum(result["error"] is None for result in results)
    return {"results": results, "sent": sent, "summary": _describe_results(results)}


def _describe_results(results: list[Json]) -> str:
    failed = [f"{result['name']}: {result['error']}" for result in results if result["error"]]
    return "; ".join([f"{len(results) - len(failed)} of {len(results)} sent", *failed])
