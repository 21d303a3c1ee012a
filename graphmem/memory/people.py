"""What users said, what is known of the world, and what agents may learn."""

from __future__ import annotations

from collections.abc import (
    Sequence,
)
from datetime import datetime

from graphmem.memory.base import MemoryBase
from graphmem.models import Knowledge, KnowledgeSource, Preference, PreferenceSource, Scope
from graphmem.models.knowledge import Asked as AskedKnowledge
from graphmem.models.knowledge import Claim
from graphmem.models.users import Asked as AskedPreferences
from graphmem.models.users import Wish


class People(MemoryBase):
    """Methods of a memory that concern users, knowledge and scopes."""

    def prefer(
        self,
        user: str,
        category: str,
        text: str,
        *,
        source: PreferenceSource = "explicit_instruction",
        at: datetime | None = None,
    ) -> Preference:
        """Store what a user wants, durably; it supersedes what the user wanted before it.

        Of a user and category the latest preference is in force, by ``at``, or else by when it was
        recorded; so one that arrives late takes its place in the history. The same at the same time
        changes nothing; nor does the same without a time, as long as nothing else was said since.

        Args:
            user: whose preference it is.
            category: what it is about, for instance "language"; one is in force in each.
            text: what the user wants.
            source: "explicit_instruction" (confidence 1), "correction" or "inferred" (0.7).
            at: when it was said, with time zone; default: not known.

        Raises:
            ValidationError: a field is wrong.
        """
        wish = Wish(user=user, category=category, text=text, source=source, at=at)
        return self._preferences.prefer(wish)

    def preferences(
        self, user: str, category: str | None = None, *, history: bool = False
    ) -> list[Preference]:
        """Return what a user wants, by category.

        Args:
            user: whose preferences.
            category: only this one.
            history: also what was superseded, the latest first.

        Raises:
            ValidationError: a name is wrong.
        """
        asked = AskedPreferences(user=user, category=category)
        return self._preferences.list(asked, history=history)

    def know(
        self,
        domain: str,
        fact: str,
        *,
        source: KnowledgeSource = "user_stated",
        user: str | None = None,
        contradicts: str | Knowledge | Sequence[str | Knowledge] | None = None,
        at: datetime | None = None,
    ) -> Knowledge:
        """Store that a source states a fact of a domain, durably.

        A fact is there once; each source, user and time that states it is kept as evidence. The
        same again changes nothing and answers ``created=False``.

        Args:
            domain: what the fact is about, for instance "billing".
            fact: the fact, in words.
            source: "user_stated" (confidence 1), "documented", "observed" or "inferred" (0.8).
            user: who stated it; :meth:`erase` can then remove it.
            contradicts: what is known and cannot be true as well: one or several, or their ids.
            at: when it was stated, with time zone; default: not known.

        Raises:
            ValidationError: a field is wrong, or the fact is to contradict itself.
            NotFoundError: what it is to contradict is not known.
        """
        claim = Claim(
            domain=domain, fact=fact, source=source, user=user, contradicts=contradicts, at=at
        )
        return self._knowledge.know(claim)

    def knowledge(self, domain: str | None = None, *, limit: int = 100) -> list[Knowledge]:
        """Return what is known, the surest first, with what contradicts what.

        Args:
            domain: only facts of this one.
            limit: rows at most.

        Raises:
            ValidationError: the domain or the limit is wrong.
        """
        return self._knowledge.list(AskedKnowledge(domain=domain), limit)

    def scope(
        self,
        agent: str,
        *,
        can_learn: Sequence[str] | None = None,
        cannot_learn: Sequence[str] = (),
        share_with: Sequence[str] = (),
        inherit_from: Sequence[str] = (),
        min_occurrences: int | None = None,
    ) -> Scope:
        """Set the scope of an agent, in place of the one that it has.

        An agent without a scope learns everything, and reads its own lessons.

        Args:
            agent: whose scope.
            can_learn: types of tasks that it may learn, in which ``*`` stands for any text;
                None: all.
            cannot_learn: types of tasks that it may not learn, whatever ``can_learn`` says.
            share_with: agents that may read its lessons; "*" lets all of them.
            inherit_from: agents whose lessons it reads where these share them with it, and those
                that these inherit from, in turn.
            min_occurrences: occurrences that a lesson needs before it reads it.

        Raises:
            ScopeError: it would inherit from itself, directly or through others.
            ValidationError: another field is wrong.
        """
        scope = Scope(
            agent=agent,
            can_learn=can_learn,
            cannot_learn=cannot_learn,
            share_with=share_with,
            inherit_from=inherit_from,
            min_occurrences=min_occurrences,
        )
        return self._scoper.set(scope)

    def scopes(self) -> list[Scope]:
        """Return all scopes, by agent."""
        return self._scoper.list()

    def scope_of(self, agent: str) -> Scope | None:
        """Return the scope of an agent, or None where it has none.

        Raises:
            ValidationError: this is no name of an agent.
        """
        return self._scoper.get(agent)

    def unscope(self, agent: str) -> bool:
        """Remove the scope of an agent; return whether it had one.

        Raises:
            ValidationError: this is no name of an agent.
        """
        return self._scoper.remove(agent)
