"""The server, asked by tools of the protocol's own makers: their inspector and conformance suite.

``conformance/expected_failures_*.yml`` name the scenarios that cannot pass, with the reason; one
that passes all the same is an error, too. Two that pass call a tool of the suite's own server, and
only look at the form of the answer: ``tools-call-simple-text`` and ``tools-call-error``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import CODE
from tests.integrations import node
from tests.integrations.test_mcp import FLIGHT, serving, taught

REVISIONS = ("2025-11-25", "2026-07-28")
PASS = {
    "2025-11-25": {
        *("server-initialize", "server-session-lifecycle", "ping", "tools-list"),
        *("resources-list", "prompts-list", "server-sse-multiple-streams"),
        "dns-rebinding-protection",
    },
    "2026-07-28": {
        *("tools-list", "resources-list", "prompts-list", "caching", "http-header-validation"),
        *("sep-2164-resource-not-found", "server-sse-multiple-streams"),
        *("dns-rebinding-protection", "input-required-result-unsupported-methods"),
        "input-required-result-ignore-extra-params",
    },
}
"""What must pass, by the revision of the protocol: what is no matter of the suite's own tools."""


@pytest.fixture(scope="module")
def tools() -> Path:
    try:
        return node.tools()
    except node.NodeUnavailable as missing:
        line = f"NOT TESTED: the inspector and the conformance suite of MCP: {missing}"
        print(f"\n{line}", file=sys.__stderr__, flush=True)
        pytest.skip(line)


@pytest.fixture
def url(folder: str) -> str:
    with Memory.open(folder) as memory:
        taught(memory)
    return folder


def start(tools: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start one of the tools, by the Node that came with them."""
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        arguments,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
    )


def test_the_conformance_suite(tools: Path, tmp_path: Path, url: str) -> None:
    with serving(url=url) as (_, address):
        runs = {
            revision: start(
                tools,
                tmp_path,
                *("conformance", "server", "--url", address, "--requirements", revision),
                *("--expected-failures", str(node.FOLDER / f"expected_failures_{revision}.yml")),
            )
            for revision in REVISIONS
        }
        for revision, run in runs.items():
            out, err = run.communicate(timeout=300)
            summary = out[out.find("=== SUMMARY") :]
            assert run.returncode == 0, summary + err
            passed = {line.split()[1].rstrip(":") for line in summary.splitlines() if "✓" in line}
            assert passed >= PASS[revision], summary


def test_the_inspector(tools: Path, tmp_path: Path, url: str) -> None:
    command = (sys.executable, "-c", CODE, "--url", url, "mcp")
    with serving(url=url) as (_, address):
        recall = ("--method", "tools/call", "--tool-name", "graphmem_recall", "--tool-arg")
        runs = [
            start(tools, tmp_path, "mcp-inspector", "--cli", *arguments)
            for arguments in (
                (*command, "--connect-timeout", "60000", "--method", "tools/list", "--strict"),
                (address, *recall, f"task={FLIGHT}", "limit=1"),
                (address, *recall, "x=1"),
            )
        ]
        done = [run.communicate(timeout=120) for run in runs]
    listed, called, wrong = (json.loads(out) for out, _ in done)
    assert len(listed["tools"]) == 8, done[0]
    assert "0 errors" in done[0][1]  # of the schemas, where clients differ
    assert called["structuredContent"]["rows"][0]["text"] == "check the fare rules"
    assert wrong["isError"]
