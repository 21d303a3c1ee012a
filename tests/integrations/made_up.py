"""A chat model of LangChain that is made up: it does what a script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

Script = Callable[[Sequence[BaseMessage]], AIMessage]


class MadeUp(BaseChatModel):
    """Answers as its script says; keeps the system prompts that it got."""

    script: Script
    _prompts: list[str] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "made-up"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        first = messages[0]
        self._prompts.append(str(first.text) if first.type == "system" else "")
        said = self.script(messages)
        said.response_metadata["model_name"] = "made-up-1"
        return ChatResult(generations=[ChatGeneration(message=said)])


def calls(*tools: str) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": {"about": "it"}, "id": f"{name}-{place}"}
            for place, name in enumerate(tools)
        ],
    )


def once(*tools: str, answer: str = "done") -> Script:
    """Call tools side by side, then answer."""

    def script(messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage(answer) if messages[-1].type == "tool" else calls(*tools)

    return script
