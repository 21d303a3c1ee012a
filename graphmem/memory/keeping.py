"""Checking a memory, taking things out of it, and moving it between files."""

from __future__ import annotations

from collections.abc import (
    Callable,
)
from datetime import timedelta
from pathlib import Path

from graphmem.errors import ValidationError
from graphmem.memory.base import MemoryBase
from graphmem.models import (
    EraseReport,
    ExportReport,
    ForgetReport,
    ImportReport,
    RebuildReport,
    VerifyReport,
)


class Keeping(MemoryBase):
    """Methods of a memory that check, erase, import and export."""

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute every derived number from the facts and compare; also check the facts."""
        report = self._maintainer.verify(on_progress)
        differences, checked = self._forecaster.verify()
        return report.model_copy(
            update={
                "ok": report.ok and not differences,
                "differences": (*report.differences, *differences),
                "checked": {**report.checked, **checked},
            }
        )

    def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Recompute every derived number from the facts and store it."""
        report = self._maintainer.rebuild(on_progress)
        self._forecaster.refit()
        return report

    def erase(
        self,
        episode_id: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
    ) -> EraseReport:
        """Remove an episode, all of an agent, or all of a user, as if it had never been.

        Every derived number loses its exact share. Of an agent go its episodes, policies, events,
        predictions and its scope; of a user the preferences, and what only this user stated.
        After erasing an agent or a user an embedded memory writes its files anew, so that nothing
        is left on disk; a server keeps removed records until it uses their place again.

        Args:
            episode_id: of the episode. Give one of the three.
            agent: a name.
            user: a name.

        Raises:
            NotFoundError: there is no such episode, agent or user in this namespace.
            ValidationError: none or several are given.
        """
        given = {"episode_id": episode_id, "agent": agent, "user": user}
        if sum(value is not None for value in given.values()) != 1:
            raise ValidationError(
                "episode_id", episode_id, "is not the only one", "give one of " + ", ".join(given)
            )
        if agent is not None:
            return self._eraser.erase_agent(agent)
        if user is not None:
            return self._eraser.erase_user(user)
        return self._eraser.erase_episode(str(episode_id))

    def forget(
        self,
        older_than: float | timedelta | None = 90,
        below_confidence: float | None = 0.3,
        agent: str | None = None,
        *,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erase episodes that are old and taught nothing that is believed.

        Their exact share of every derived number goes, and what nothing else supports.

        Args:
            older_than: days (or a timedelta) since an episode ended, else started, else was
                recorded; None: of any age.
            below_confidence: each strategy of the episode has a lower confidence (posterior mean)
                for its agent and type of task; None: whatever is believed.
            agent: only episodes of this agent.
            dry_run: report what would go, and change nothing.

        Raises:
            ValidationError: an argument is wrong, or both conditions are None.
        """
        return self._eraser.forget(older_than, below_confidence, agent, dry_run=dry_run)

    def import_sentinel(self, path: str | Path, *, name: str | None = None) -> ImportReport:
        """Learn the episodes of a Sentinel file in one transaction, and keep all the rest of it.

        :meth:`export_sentinel` then gives the same JSON value back. An episode is known by its
        place in the file, so importing a file to which episodes were added learns these.

        Args:
            path: the file, also gzipped.
            name: what the file is known by; default: its name without folder and endings.

        Raises:
            SeedingError: it cannot be read, is damaged, or of a newer version.
            ValidationError: an episode is wrong (``episodes.3.score``: the fourth).
            ConflictError: another episode was learned from this place of this file.
        """
        return self._exchange.import_sentinel(path, name)

    def export_sentinel(self, path: str | Path, *, document: str | None = None) -> ExportReport:
        """Write all episodes as a Sentinel file, in place of what is there.

        Args:
            path: the file; it is replaced at the end, so that it is never half written.
            document: only the episodes of an imported file, by its name.

        Raises:
            NotFoundError: no such file was imported.
            ValidationError: imported files differ in what they hold beside their episodes.
            StorageError: the file cannot be written; what was there stays.
        """
        return self._exchange.export_sentinel(path, document)

    def import_jsonl(self, path: str | Path) -> ImportReport:
        """Learn the episodes of JSON lines (the format ``jsonl``) that are all right.

        Raises:
            SeedingError: it cannot be read, or a line is wrong; nothing was learned.
        """
        return self._exchange.import_jsonl(path)

    def export_jsonl(self, path: str | Path) -> ExportReport:
        """Write all episodes as JSON lines, in place of what is there; ids stay the same.

        Raises:
            StorageError: the file cannot be written; what was there stays.
        """
        return self._exchange.export_jsonl(path)
