"""Set the model and the mode of an agent's session."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.runner import permissions
from shopfloor.runner.acp import Agent, SessionModels
from shopfloor.runner.view import View


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The model and the mode for a session; without a mode, one that asks if `must_ask`."""

    model: str | None
    mode: str | None
    must_ask: bool


async def apply_settings(agent: Agent, session: str, settings: SessionSettings, view: View, name: str) -> str | None:
    """Set the model and the mode of a session. Return None, or what the agent does not offer."""
    if settings.model is not None:
        model = _find_model(agent.models, settings.model)
        if model is None:
            offered = ", ".join(id for id, _ in agent.models.available) if agent.models is not None else ""
            return f"the agent offers no model '{settings.model}'; expected one of {offered or '(none)'}"
        await agent.set_model(session, model)
        view.show("model", run=name, model=model)
    mode = settings.mode
    # Codex writes files in its default mode without asking: --permissions deny would prevent nothing.
    if mode is None and agent.modes is not None and settings.must_ask and not permissions.asks_in_mode(agent.modes):
        mode = permissions.find_asking_mode(agent.modes)
        if mode is None:
            view.show("mode_never_asks", run=name, mode=agent.modes.current)
    if mode is None:
        return None
    available = () if agent.modes is None else agent.modes.available
    if mode not in available:
        return f"the agent has no mode '{mode}'; expected one of {', '.join(available) or '(none)'}"
    await agent.set_mode(session, mode)
    view.show("mode", run=name, mode=mode)
    return None


def _find_model(models: SessionModels | None, wanted: str) -> str | None:
    """Return the id of the model with this id or, ignoring case, this name."""
    offered = () if models is None else models.available
    if any(id == wanted for id, _ in offered):
        return wanted
    return next((id for id, name in offered if name.casefold() == wanted.casefold()), None)
