"""Run ``graphmem`` in forks of one process that has imported everything.

    forking.py SOCKET                   serve, until standard input ends
    python -I -S forking.py SOCKET ...  run a command there, as ``graphmem ...`` would

A command is a process of its own, with the arguments, folder, environment and standard files of
whoever asked, and ends as ``graphmem`` ends. It is only spared the imports, which take longer than
most commands. Where the environment would change how Python starts, ``graphmem`` itself is run.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from graphmem.search.embedding import MiniLM

CODE = "from graphmem.cli import main; main()"
EARLY = ("PYTHON", "LANG", "LC_", "TZ", "LD_")
"""What begins so has its effect when Python starts."""
NOT_HERE = b"?"
LOADED: list[MiniLM] = []
"""The model, which takes longer than most commands, too."""


def main() -> None:
    """Serve, or ask the server at the end of a socket."""
    path, *arguments = sys.argv[1:]
    if sys.flags.isolated:
        _ask(path, arguments)
    elif _serve(path):
        _run()


def _ask(path: str, arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    surroundings = [f"{name}={value}" for name, value in os.environ.items()]
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to import than all the rest
    texts = [folder, str(len(arguments)), *arguments, *surroundings]
    said = os.fsencode("\0".join(texts))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        socket.send_fds(link, [len(said).to_bytes(4, "big")], [0, 1, 2])
        link.sendall(said)
        answer = link.recv(8)
    if answer == NOT_HERE:
        os.execv(sys.executable, [sys.executable, "-c", CODE, *arguments])  # noqa: S606
    code = int(answer)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _serve(path: str) -> bool:
    """Return True in a fork that is to run a command, False when there is no more to do."""
    import select

    _import_everything()
    answering: list[int] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            waiting, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in waiting:
                return False
            link, _ = listener.accept()
            child = os.fork()
            if not child:
                break
            link.close()
            answering = [one for one in (*answering, child) if not os.waitpid(one, os.WNOHANG)[0]]
    with link:
        size, files, _, _ = socket.recv_fds(link, 4, 3)
        said = bytearray()
        while len(said) < int.from_bytes(size, "big"):
            said += link.recv(1 << 16)
        folder, count, *texts = os.fsdecode(bytes(said)).split("\0")
        arguments, surroundings = texts[: int(count)], texts[int(count) :]
        environment = dict(text.split("=", 1) for text in surroundings)
        if _early(environment) != _early(dict(os.environ)):
            link.sendall(NOT_HERE)
            os._exit(0)
        if child := os.fork():
            _answer(link, child)
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream is sys.stderr or stream.isatty())  # type: ignore[union-attr]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["graphmem", *arguments]
    return True


def _run() -> None:
    """Run a command, and end without taking down what was imported, which takes longest of all."""
    import atexit
    import threading

    from graphmem.cli import main as command

    try:
        command()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        code = end.code
    else:
        code = 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _answer(link: socket.socket, child: int) -> None:
    """Tell how a command ends; who went away before wants it no longer."""
    import select

    waiting, _, _ = select.select([link.fileno(), os.pidfd_open(child)], [], [])
    if link.fileno() in waiting:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    link.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _import_everything() -> None:
    import gc
    import warnings
    from importlib import import_module
    from pkgutil import walk_packages

    import graphmem

    # One thread, for others do not live on in a fork. (That of onnxruntime need not.)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    for module in walk_packages(graphmem.__path__, "graphmem."):
        import_module(module.name)
    for name in ("kglite", "matplotlib.figure", "rich.progress", "rich.table"):
        import_module(name)
    from graphmem.search.embedding import MiniLM
    from graphmem.store.queries import catalog

    list(catalog())
    LOADED.append(MiniLM())
    LOADED[0].embed(["a text"])
    gc.freeze()  # else a fork that collects copies everything
    del os.environ["OPENBLAS_NUM_THREADS"]


def _early(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(EARLY)}


if __name__ == "__main__":
    main()
