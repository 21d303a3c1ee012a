"""Skills: what was learned, as files that agents and people read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from graphmem.advice.changes import Changes
from graphmem.errors import StorageError, ValidationError, shown
from graphmem.files import writing
from graphmem.graph.arguments import check_choice, checked_agent, checked_path, checked_text
from graphmem.graph.graph import Graph
from graphmem.kinds import SKILL_FORMS, SkillForm
from graphmem.lessons import Lessons
from graphmem.lessons.priors import replace_priors
from graphmem.models.reports import SkillImport, SkillReport
from graphmem.search.similarity import Similarity
from graphmem.skills import wording
from graphmem.skills.conclusions import gather_kinds
from graphmem.skills.reading import read_source
from graphmem.skills.wording import BEGIN, END, FILE

_MARK = re.compile(r'\A---\n(?:.*\n){0,8}?metadata:\n  graphmem: (".*")\n---\n')
_BLOCK = re.compile(rf"^{BEGIN}\r?\n.*?^{END}[ \t]*\r?\n?", re.DOTALL | re.MULTILINE)


class Skills:
    """Writes what was learned as files for agents and people, and reads what others wrote.

    It is ``memory.skills``.
    """

    def __init__(
        self, graph: Graph, lessons: Lessons, changes: Changes, similarity: Similarity
    ) -> None:
        self._graph = graph
        self._similarity = similarity
        self._gather = partial(gather_kinds, graph, lessons, changes, similarity.fresh)

    def import_(self, path: str | Path, source: str | None = None) -> SkillImport:
        """Let skills (``SKILL.md``) or a playbook count as priors, which are no outcomes.

        :meth:`Memory.recall`, :meth:`Memory.context` and :meth:`Memory.choose` tell them where
        nothing was tried yet on such tasks, and :meth:`Memory.predict` counts them for a few trials
        at most, whatever numbers a file has. The same content changes nothing; other content
        replaces what the source said before. ``upkeep.erase(source=...)`` removes it.

        Args:
            path: a ``SKILL.md``, a folder with some (at any depth), or a playbook: lines ``[id]
                helpful=N harmful=N :: text`` under headings, which are kinds of tasks. Files have
                at most 4 MB, a source at most 10,000 strategies.
            source: whose word it is; default: the name of the folder, or the file without ending.

        Raises:
            NotFoundError: there is no such file, or no skill in the folder.
            StorageError: a file cannot be read.
            ValidationError: an argument or a line of a file is wrong; nothing was stored.
        """
        place, named = checked_path("path", path), checked_text("source", source)
        with _files(place):
            records, files = read_source(place, named)
        name = records[0].source
        replaced, changed = self._graph.transact(lambda tx: replace_priors(tx, name, records))
        self._similarity.fresh()
        self._similarity.skills.embed(self._similarity.vectors.skills)
        return SkillImport(
            source=name,
            files=files,
            skills=len({(one.kind, one.about) for one in records}),
            priors=len(records),
            avoid=sum(one.verdict == "avoid" for one in records),
            replaced=replaced if changed else 0,
            changed=changed,
        )

    def export(
        self,
        path: str | Path,
        form: SkillForm = "skills",
        *,
        task_type: str | None = None,
        agent: str | None = None,
    ) -> SkillReport:
        """Write what was learned, by kind of task: only what outcomes established or refuted.

        Every sentence has the id of its evidence, for :meth:`Memory.explain`. Without new evidence
        no file changes. A kind of task is a type, or tasks without a type that are near each other.

        Args:
            path: a folder for "skills", else a file.
            form: "skills": a folder of its own for each kind of task, with a ``SKILL.md`` after the
                Agent Skills convention. A folder that an earlier export of this namespace and agent
                wrote, and of whose kind nothing is known any more, is removed; others are left
                alone. "agents-md": a marked block in a file such as AGENTS.md or CLAUDE.md, whose
                other text stays as it is. "playbook": lines ``[id] helpful=N harmful=N :: text``.
                "report": a page of HTML for people, with pictures and without scripts, which also
                counts the kinds of tasks of which nothing is certain.
            task_type: only tasks of this type; folders of other types are left alone then.
            agent: only what this agent may read; None: all.

        Raises:
            NotFoundError: there is no task of this type.
            ValidationError: an argument is wrong, or a folder or block there is not ours.
            StorageError: a file cannot be read or written.
        """
        target = checked_path("path", path)
        check_choice("form", form, SKILL_FORMS)
        agent = checked_agent(agent)
        every = self._gather(task_type, agent)
        kinds = [kind for kind in every if kind.findings]
        changed, removed = [str(target)], list[str]()
        with _files(target):
            if form == "skills":
                mark = f"namespace {self._graph.ns}" + (f", agent {agent}" if agent else "")
                named = wording.names_of(kinds).items()
                texts = {name: wording.write_skill(kind, name, mark) for name, kind in named}
                changed, removed = _write_folders(target, texts, mark, keep=task_type is not None)
            elif form == "agents-md":
                changed *= _write(target, _with_block(target, wording.write_block(kinds)))
            elif form == "playbook":
                changed *= _write(target, wording.write_playbook(kinds))
            else:
                changed *= _write(target, wording.write_report(every, self._graph.ns))
        return SkillReport(
            path=str(target),
            form=form,
            kinds=len(kinds),
            conclusions=sum(len(kind.findings) for kind in kinds),
            changed=tuple(changed),
            removed=tuple(removed),
        )


def _write_folders(
    folder: Path, texts: Mapping[str, str], mark: str, *, keep: bool
) -> tuple[list[str], list[str]]:
    """Write skills into a folder; return the names of those that changed, and were removed."""
    there = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    ours = {name for name in there if _mark_of(folder / name / FILE) == mark}
    for name in texts:
        if name in there and name not in ours:
            problem = f"has {name!r}, which graphmem did not write for this namespace and agent"
            raise ValidationError("path", str(folder), problem, "move that, or name another folder")
    changed = []
    for name, text in texts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        if _write(folder / name / FILE, text):
            changed.append(name)
    removed = [] if keep else sorted(ours - texts.keys())
    for name in removed:
        (folder / name / FILE).unlink()
        with suppress(OSError):  # it holds files of others
            (folder / name).rmdir()
    return changed, removed


def _mark_of(path: Path) -> str | None:
    """Return whose a skill is: the mark of graphmem, or None."""
    with suppress(OSError, ValueError):
        found = _MARK.match(path.read_text(encoding="utf-8"))
        return found and str(json.loads(found[1]))
    return None


def _with_block(path: Path, block: str) -> str:
    """Return the text of a file with its block, or with one at its end if it has none."""
    before = path.read_bytes().decode() if path.exists() else ""
    ends = [before.count(BEGIN), before.count(END)]
    found = list(_BLOCK.finditer(before))
    if ends != [len(found)] * 2 or len(found) > 1:
        problem = f"has not one {BEGIN} and one {END} after it, each on a line of its own"
        raise ValidationError("path", str(path), problem, "remove what is left of the block")
    gap = "\n" if before.endswith("\n") else "\n\n"
    if "\r\n" in before:
        block, gap = (text.replace("\n", "\r\n") for text in (block, gap))
    if found:
        return before[: found[0].start()] + block + before[found[0].end() :]
    return before + gap + block if before else block


def _write(path: Path, text: str) -> bool:
    """Write a file unless it holds the text already; return whether it changed."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    with writing(path) as file:
        file.write(text.encode())
    return True


@contextmanager
def _files(path: Path) -> Iterator[None]:
    """Turn errors of files into ours."""
    try:
        yield
    except UnicodeDecodeError:
        raise ValidationError("path", str(path), "is not a text in UTF-8") from None
    except OSError as error:
        name = shown(str(error.filename or path))
        raise StorageError(f"{name}: {error.strerror or error}") from error
