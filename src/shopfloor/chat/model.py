"""The model behind the assistant. Only this file imports the SDK, when the first message arrives."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import Any

from shopfloor.engine import IMPORT_LOCK
from shopfloor.errors import ShopfloorError, Unavailable
from shopfloor.settings import API_KEY_VARIABLE, Settings
from shopfloor.toolkit import Json, Tool

OFF_NO_KEY = f"The chat is switched off: set {API_KEY_VARIABLE}, or chat_base_url for an endpoint of your own, and restart the server."
OFF_NOT_INSTALLED = "The chat is switched off: pip install 'shopfloor[chat]' and restart the server."

Invoke = Callable[[str, str], Awaitable[str]]
EventListener = Callable[[str, Json], None]

_log = logging.getLogger("shopfloor.chat")


class ModelFailed(Unavailable):
    """The assistant cannot reach its model right now. Your list works as before; please try again in a moment."""

    code = "MODEL_ERROR"


class ModelSlow(Unavailable):
    """The assistant took too long. What it already did is on your list; please try again."""

    code = "MODEL_TIMEOUT"


class KeyRefused(ShopfloorError):
    """The model rejects the API key of this server. Ask the operator to check it."""

    code = "MODEL_KEY_REFUSED"


class TooManySteps(ShopfloorError):
    """That took more steps than I may take at once. What I already did is on your list; please ask for less."""

    code = "TOO_MANY_STEPS"


def find_missing_setup(settings: Settings) -> str | None:
    """Say how to switch the chat on, or return None if it is on."""
    if importlib.util.find_spec("agents") is None:
        return OFF_NOT_INSTALLED
    return None if settings.chat_key or settings.chat_base_url else OFF_NO_KEY


async def converse(
    settings: Settings,
    instructions: str,
    history: Sequence[Json],
    tools: Sequence[Tool],
    invoke: Invoke,
    on_event: EventListener,
) -> str:
    """Let the model answer, with the tools. Emit its text as it arrives, and return the final text."""
    sdk, openai = await asyncio.to_thread(_load_sdk)
    try:
        client = openai.AsyncOpenAI(
            # The client refuses to start without a key, but a local endpoint needs none.
            api_key=settings.chat_key or "none",
            base_url=settings.chat_base_url,
            timeout=settings.chat_timeout,
            max_retries=1,
        )
        protocol = sdk.OpenAIResponsesModel if settings.chat_api == "responses" else sdk.OpenAIChatCompletionsModel
        config = sdk.RunConfig(
            tracing_disabled=True,
            trace_include_sensitive_data=False,
            tool_execution=sdk.ToolExecutionConfig(max_function_tool_concurrency=1),
        )
        async with asyncio.timeout(settings.chat_timeout), client:
            agent = sdk.Agent(
                name="TodoBot",
                instructions=instructions,
                model=protocol(settings.chat_model, client),
                tools=[_build_function(sdk, tool, invoke) for tool in tools],
            )
            run = sdk.Runner.run_streamed(agent, list(history), max_turns=settings.chat_steps, run_config=config)
            async for event in run.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    on_event("text", {"delta": event.data.delta})
            return str(run.final_output or "")
    except TimeoutError:
        raise ModelSlow from None
    except ShopfloorError:
        raise
    except Exception as error:
        _log.warning("the model failed: %s: %s", type(error).__name__, str(error)[:500])
        if isinstance(error, sdk.MaxTurnsExceeded):
            raise TooManySteps from error
        if isinstance(error, openai.APITimeoutError):
            raise ModelSlow from error
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            raise KeyRefused from error
        raise ModelFailed from error


def _load_sdk() -> tuple[ModuleType, ModuleType]:
    # It imports the MCP SDK. When another thread loaded that SDK for the endpoints, each could find a half-loaded
    # module: the chat answered 500, or no MCP endpoint ever became ready.
    with IMPORT_LOCK:
        import agents  # noqa: PLC0415 - heavy, and optional
        import openai  # noqa: PLC0415

    # The SDK sends traces, with the texts of the conversation, to OpenAI unless tracing is switched off.
    agents.set_tracing_disabled(True)
    return agents, openai


def _build_function(sdk: Any, tool: Tool, invoke: Invoke) -> Any:
    async def run(_: Any, arguments: str) -> str:
        return await invoke(tool.name, arguments)

    return sdk.FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=run,
        strict_json_schema=False,
    )
