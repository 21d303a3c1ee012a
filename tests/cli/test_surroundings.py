"""What is around a command: the environment, shells, other processes, pipes, damage, odd text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.cli.running import CODE, HUSH, complaint, good, run, start
from tests.faults.learner import BATCH, environment, holding, run_program

# Settings from the environment


def settings(*options: str, **env: str) -> dict[str, tuple[object, str]]:
    rows = good(*options, "--json", "doctor", "settings", **env).json
    return {row["setting"]: (row["value"], row["from"]) for row in rows}


def test_settings_says_where_each_value_comes_from(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = settings("--url", url, GRAPHMEM_Z="1.64", **HUSH)
    assert (found["GRAPHMEM_Z"], found["GRAPHMEM_URL"]) == ((1.64, "environment"), (url, "--url"))
    assert found["GRAPHMEM_WAIT"] == (None, "default")
    assert "hush" not in str(found) + good("doctor", "settings", **HUSH).out
    good("--url", url, "learn", "t", "s", "--success", GRAPHMEM_Z="1.64")
    assert settings("--url", url)["GRAPHMEM_Z"] == (1.64, "the memory")
    other = settings("--url", url, GRAPHMEM_Z="2")["GRAPHMEM_Z"]
    assert other == (2.0, "environment; the memory keeps 1.64")

    file = tmp_path / "graphmem.toml"
    file.write_text('url = "other.graph"\nz = 1.64\nwait = 1\n')
    found = settings("--wait", "2", GRAPHMEM_Z="2")
    assert found["GRAPHMEM_URL"] == ("other.graph", str(file))
    assert (found["GRAPHMEM_Z"], found["GRAPHMEM_WAIT"]) == ((2.0, "environment"), (2.0, "--wait"))
    file.write_text("waite = 1\n")
    assert f"setting waite in {file}" in complaint("list")


def test_a_setting_in_the_environment_counts_unless_an_option_says_else(url: str) -> None:
    both = {"GRAPHMEM_URL": url, "GRAPHMEM_NAMESPACE": "team"}
    good("learn", "t", "s", "--success", **both)
    assert good("--json", "list", **both).json["episodes"] == 1
    assert good("--url", url, "--json", "list").json["episodes"] == 0
    assert good("--url", url, "--namespace", "team", "--json", "list").json["episodes"] == 1
    overridden = complaint("--namespace", "other", "list", code=2, **both)
    assert "no namespace 'other' in this memory; there are: team" in overridden


# Starting


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from graphmem.cli import main\n"
        "try:\n    main([sys.argv[1]])\n"
        "finally:\n"
        "    heavy = {'pydantic', 'kglite', 'neo4j', 'rich'} & sys.modules.keys()\n"
        "    print('loaded:', sorted(heavy))\n"
    )
    for option in ("--help", "--version"):
        answer = run_program(code, option)
        assert answer.returncode == 0
        assert "graphmem" in answer.stdout
        assert answer.stdout.splitlines()[-1] == "loaded: []"


def test_the_module_is_the_command() -> None:
    """``python -m graphmem`` says and does what ``graphmem`` does, also where it fails."""
    for arguments in (["recall", "--help"], ["strategys"]):
        module, command = (
            subprocess.run([*begin, *arguments], capture_output=True, text=True, check=False)
            for begin in ([sys.executable, "-m", "graphmem"], [sys.executable, "-c", CODE])
        )
        assert (module.returncode, module.stdout, module.stderr) == (
            (command.returncode, command.stdout, command.stderr)
        )
        assert "graphmem" in module.stdout + module.stderr


# Other processes and pipes


def test_asking_beside_a_writing_process_works_and_says_that_it_is_a_snapshot(url: str) -> None:
    with holding(environment(url), 2) as writer:
        done = run("--url", url, "--json", "list")
        assert (done.code, done.json["episodes"]) == (0, 2 * BATCH)
        assert re.search(r"snapshot, \d+\.\d s old", done.err)
        for command in (
            ("list", "strategies"), ("upkeep", "verify"), ("explain", "ask first"),
            ("events", "tail"), ("doctor",),
        ):  # fmt: skip
            beside = run("--url", url, *command)
            assert (beside.code, "snapshot" in beside.err) == (0, True)
        learn = ("--url", url, "--wait", "0.2", "learn", "t", "s", "--success")
        assert str(writer.pid) in complaint(*learn, code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("procedures", "list"),
        ("--json", "list", "strategies"),
        ("query", "--csv", "-e", "UNWIND range(1, 100000) AS x RETURN x"),
        ("seed", "-", "--refused", "-"),
    ],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_no_error_to_shout_about(
    seeded: str, arguments: tuple[str, ...]
) -> None:
    """As in ``graphmem ... | head -1``, when head has had enough."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start("--url", seeded, *arguments, stdout=writing, stdin=subprocess.PIPE)
    os.close(writing)
    _, err = process.communicate(b'{"task": 1, "strategy": 2}\n' * 3, timeout=60)
    assert b"Traceback" not in err
    assert b"Exception" not in err
    assert b"BrokenPipe" not in err
    assert process.returncode in (0, 1, -signal.SIGPIPE, 128 + signal.SIGPIPE)


# Memories that are missing or damaged


def test_where_there_is_no_memory_asking_says_how_to_make_one(url: str) -> None:
    for command in (
        ("list",), ("policies", "best", "a=1"), ("upkeep", "verify"), ("explain", "s"),
        ("events", "tail"),
    ):  # fmt: skip
        assert "graphmem init" in complaint("--url", url, *command)
    done = run("--url", url, "doctor")
    assert (done.code, "graphmem init" in done.out) == (1, True)
    assert not Path(url).exists()


def test_doctor_on_a_good_memory(seeded: str) -> None:
    findings = {item["check"]: item for item in good("--url", seeded, "--json", "doctor").json}
    assert all(item["ok"] for item in findings.values())
    assert "kglite" in findings["engine"]["found"]
    assert "default (30 episodes)" in findings["namespaces"]["found"]
    assert "WRONG" not in good("--url", seeded, "doctor").out


def test_doctor_shows_formats_embedders_and_the_schema(seeded: str) -> None:
    names = [row["name"] for row in good("--json", "doctor", "formats").json]
    assert {"jsonl", "tau-bench", "intercode"} <= set(names)
    assert "tau-bench" in good("doctor", "formats").out
    assert "strategy" in good("doctor", "schema").json["properties"]
    rows = good("--url", seeded, "--json", "doctor", "embedders").json
    assert {"minilm", "hashing"} <= {row["name"] for row in rows}
    assert "in force" in good("--url", seeded, "doctor", "embedders").out


def test_doctor_on_a_damaged_memory_and_on_other_things(seeded: str, tmp_path: Path) -> None:
    file = Path(seeded) / "graph.kgl"
    file.write_bytes(file.read_bytes()[:500])
    done = run("--url", seeded, "--json", "doctor")
    assert done.code == 1
    [wrong] = [item for item in done.json if not item["ok"]]
    assert "damaged" in wrong["found"]
    assert "graphmem doctor --accept-loss" in wrong["remedy"]

    (tmp_path / "notes.txt").write_text("dear diary")
    assert "WRONG" in run("--url", str(tmp_path / "notes.txt"), "doctor").out
    assert "WRONG" in run("--url", "bolt://127.0.0.1:1", "doctor", **HUSH).out


# Text that is odd, in and out


def test_bytes_that_are_no_text_are_refused_like_other_bad_values(seeded: str) -> None:
    for arguments in (
        ("learn", "task @", "s", "--success"), ("list", "strategies", "--task", "@"),
        ("upkeep", "erase", "@", "--yes"), ("query", "-e", "RETURN '@' AS x"),
        ("query", "what_works", "-p", "limit=@"),
    ):  # fmt: skip
        done = run("--url", seeded, *(word.replace("@", "\udcff") for word in arguments))
        assert (done.code in (1, 2), "Error" in done.err) == (True, True)


def test_output_is_utf8_whatever_the_locale(url: str) -> None:
    good("--url", url, "learn", "T\u00e2che", "\u7b56\u7565", "--success")
    surroundings = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": ""}
    process = start("--url", url, "list", "strategies", env=surroundings)
    assert "\u7b56\u7565" in process.communicate(timeout=60)[0].decode()


ASKED = "_GRAPHMEM_COMPLETE"


@pytest.mark.parametrize(("typed", "found"), [
    ("graphmem reca", "recall"), ("graphmem --names", "--namespace"),
    ("graphmem recall --li", "--limit"), ("graphmem list anti", "anti-patterns"),
])  # fmt: skip
def test_a_command_and_an_option_are_completed(typed: str, found: str) -> None:
    place = str(len(typed.split()) - 1)
    asked = {ASKED: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": place}
    assert good(**asked).out == f"plain,{found}\n"


def test_completing_does_not_import_what_a_memory_needs() -> None:
    code = (
        "import os, sys; from graphmem.cli import main\n"
        "os.environ.update(COMP_WORDS='graphmem recall --', COMP_CWORD='2')\n"
        f"os.environ['{ASKED}'] = 'bash_complete'\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "print({'pydantic', 'numpy', 'kglite'} & set(sys.modules))"
    )
    done = run_program(code)
    assert done.stdout.splitlines()[-1] == "set()"


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_runs_outside_the_repository(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    # A proxy or index that the machine is set up with stays; nothing of this environment does.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRT"))
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    [wheel] = tmp_path.glob("graphmem-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    static = {path.name for path in (ROOT / "graphmem/view/static").iterdir()}
    assert {f"graphmem/view/static/{name}" for name in static} <= packed, "the page works from it"
    run(*pip, "install", "--no-compile", str(wheel))

    graphmem = str(tmp_path / "empty" / "bin" / "graphmem")
    where = run(str(python), "-c", "import graphmem; print(graphmem.__file__)")
    assert str(tmp_path) in where
    shown = json.loads(run(graphmem, "--json", "demo", "--questions", "20"))
    assert shown["seeded"]["created"] >= 500
    assert shown["verified"] is True
    assert len(shown["learned"]["agents"]["memory"]["right"]) == 20
    assert "learning.best" in run(graphmem, "procedures", "list")
