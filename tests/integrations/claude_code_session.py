"""Sessions of Claude Code, made up: its transcript line by line, and what it gives its hooks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "5f0c6f0e-6d5c-4f0e-9a51-0c6b1d1f7a10"
BEGIN = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)


class Session:
    """Writes a transcript as a session goes on."""

    def __init__(self, path: Path, session: str = SESSION) -> None:
        self.path = path
        self.session = session
        self.count = 0

    def line(self, kind: str, message: dict[str, Any] | None, **more: Any) -> None:
        """Add a line with what all lines have."""
        self.count += 1
        at = BEGIN + timedelta(seconds=self.count)
        entry = {
            "parentUuid": f"u{self.count - 1}" if self.count > 1 else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(self.path.parent),
            "sessionId": self.session,
            "version": "2.1.226",
            "gitBranch": "main",
            "type": kind,
            **({} if message is None else {"message": message}),
            "uuid": f"u{self.count}",
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **more,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def prompt(self, text: str | list[dict[str, Any]], **more: Any) -> None:
        message = {"role": "user", "content": text}
        self.line("user", message, promptId=f"p{self.count}", **more)

    def says(self, text: str, **more: Any) -> None:
        self._assistant({"type": "text", "text": text}, **more)

    def calls(
        self,
        name: str,
        given: dict[str, Any],
        result: Any = "ok",
        *,
        error: bool = False,
        more: Any = None,
        **entry: Any,
    ) -> None:
        identity = f"toolu_{self.count}"
        self._assistant({"type": "tool_use", "id": identity, "name": name, "input": given})
        block = {
            "type": "tool_result", "tool_use_id": identity, "content": result, "is_error": error,
        }  # fmt: skip
        raw = f"Error: {result}" if error else {"stdout": result, "interrupted": False}
        message = {"role": "user", "content": [block]}
        self.line("user", message, toolUseResult=raw if more is None else more, **entry)

    def runs(self, command: str, code: int = 0, result: str = "", **more: Any) -> None:
        said = f"Exit code {code}\n{result}" if code else result
        self.calls("Bash", {"command": command}, said, error=code != 0, **more)

    def _assistant(self, block: dict[str, Any], **more: Any) -> None:
        message = {
            "id": f"msg_{self.count}", "type": "message", "role": "assistant",
            "model": "claude-opus-5", "content": [block], "stop_reason": None,
            "usage": {"input_tokens": 3, "output_tokens": 5},
        }  # fmt: skip
        self.line("assistant", message, **more)

    def hook(self, event: str, **more: Any) -> dict[str, Any]:
        return {
            "session_id": self.session, "transcript_path": str(self.path),
            "cwd": str(self.path.parent), "hook_event_name": event, **more,
        }  # fmt: skip

    def ended(self) -> dict[str, Any]:
        return self.hook("SessionEnd", reason="prompt_input_exit")

    def asked(self, prompt: str) -> dict[str, Any]:
        return self.hook("UserPromptSubmit", permission_mode="default", prompt=prompt)


def fixing(session: Session) -> None:
    """A session in which a test fails, passes, and the user is asked for more."""
    session.line("file-history-snapshot", None, snapshot={"trackedFileBackups": {}})
    session.prompt("fix the failing date test", origin={"kind": "human"})
    session.calls("Read", {"file_path": "dates.py"}, "def parse(text): ...")
    session.runs("cd app && pytest -q", 1, "1 failed")
    session.calls("Edit", {"file_path": "dates.py", "old_string": "a", "new_string": "b"})
    session.runs("cd app && pytest -q", 0, "12 passed")
    session.says("The test passes now.")
    session.prompt("rename the module to days")
    session.runs("git mv dates.py days.py")
    session.runs("pytest", 2, "no module named dates")
    session.says("It is renamed.")
    session.prompt("explain what it does")
    session.says("It parses dates.")
