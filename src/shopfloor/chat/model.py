"""The model behind the assistant. Nobody else imports the SDK, and it is loaded when somebody first chats."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import Any

from shopfloor.app import LOADING
from shopfloor.errors import ShopfloorError, Unavailable
from shopfloor.settings import CHAT_KEY, Settings
from shopfloor.toolkit import Json, Tool

OFF_NO_KEY = f"The chat is switched off: set {CHAT_KEY}, or chat_base_url for an endpoint of your own, and start again."
OFF_NOT_INSTALLED = "The chat is switched off: pip install 'shopfloor[chat]' and start again."

Invoke = Callable[[str, str], Awaitable[str]]
Tell = Callable[[str, Json], None]

_log = logging.getLogger("shopfloor.chat")


class ModelFailed(Unavailable):
    """The assistant cannot reach its model right now. Your list works as before; please try again in a moment."""

    code = "MODEL_ERROR"


class ModelSlow(Unavailable):
    """The assistant took too long. What it already did is on your list; please try again."""

    code = "MODEL_TIMEOUT"


class KeyRefused(ShopfloorError):
    """The model does not accept this floor's key; whoever runs the floor has to look at it."""

    code = "MODEL_KEY_REFUSED"


class TooManySteps(ShopfloorError):
    """That took more steps than I may take at once. What I already did is on your list; please ask for less."""

    code = "TOO_MANY_STEPS"


def switched_off(settings: Settings) -> str | None:
    """How to switch the chat on, where it is off."""
    if importlib.util.find_spec("agents") is None:
        return OFF_NOT_INSTALLED
    return None if settings.chat_key or settings.chat_base_url else OFF_NO_KEY


async def converse(
    settings: Settings, instructions: str, said: Sequence[Json], tools: Sequence[Tool], invoke: Invoke, tell: Tell
) -> str:
    """What the model answers in the end; on the way it uses the tools, and what it writes is told as it comes."""
    sdk, openai = await asyncio.to_thread(_kit)
    try:
        async with asyncio.timeout(settings.chat_timeout), _client(openai, settings) as client:
            agent = sdk.Agent(
                name="TodoBot",
                instructions=instructions,
                model=_model(sdk, settings, client),
                tools=[_function(sdk, tool, invoke) for tool in tools],
            )
            run = sdk.Runner.run_streamed(agent, list(said), max_turns=settings.chat_steps, run_config=_config(sdk))
            async for event in run.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    tell("text", {"delta": event.data.delta})
            return str(run.final_output or "")
    except TimeoutError:
        raise ModelSlow from None
    except ShopfloorError:
        raise
    except Exception as error:
        raise _translated(sdk, openai, error) from error


def _kit() -> tuple[ModuleType, ModuleType]:
    with LOADING:  # it brings the MCP SDK with it
        import agents  # noqa: PLC0415 - heavy, and optional
        import openai  # noqa: PLC0415

    agents.set_tracing_disabled(True)
    return agents, openai


def _client(openai: Any, settings: Settings) -> Any:
    return openai.AsyncOpenAI(
        api_key=settings.chat_key or "none",
        base_url=settings.chat_base_url,
        timeout=settings.chat_timeout,
        max_retries=1,
    )


def _model(sdk: Any, settings: Settings, client: Any) -> Any:
    kind = sdk.OpenAIResponsesModel if settings.chat_api == "responses" else sdk.OpenAIChatCompletionsModel
    return kind(settings.chat_model, client)


def _config(sdk: Any) -> Any:
    return sdk.RunConfig(
        tracing_disabled=True,
        trace_include_sensitive_data=False,
        tool_execution=sdk.ToolExecutionConfig(max_function_tool_concurrency=1),
    )


def _function(sdk: Any, tool: Tool, invoke: Invoke) -> Any:
    async def run(_: Any, arguments: str) -> str:
        return await invoke(tool.name, arguments)

    return sdk.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=run,
        strict_json_schema=False,
    )


def _translated(sdk: Any, openai: Any, error: Exception) -> ShopfloorError:
    _log.warning("the model failed: %s: %s", type(error).__name__, str(error)[:500])
    if isinstance(error, sdk.MaxTurnsExceeded):
        return TooManySteps()
    if isinstance(error, openai.APITimeoutError):
        return ModelSlow()
    if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
        return KeyRefused()
    return ModelFailed()
