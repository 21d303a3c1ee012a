"""A TCP proxy before a server that cuts connections at random."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading

SIZE = 65_536


class Proxy:
    """Passes bytes on between its own port and a server's; ``uri`` leads through it."""

    chance = 0.0
    """How likely a connection is cut at each piece that passes, in either direction."""

    def __init__(self, host: str, port: int, *, seed: int = 0) -> None:
        self._server = (host, port)
        self._random = random.Random(seed)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._ended = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._ended:
                for key, _ in selector.select(0.1):
                    self._handle(selector, key.fileobj)
            while self._pairs:
                self._cut(selector, next(iter(self._pairs)))

    def _handle(self, selector: selectors.BaseSelector, ready: object) -> None:
        if ready is self._listener:
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(self._server, 5)
            except OSError:
                client.close()
                return
            for end, other in ((client, server), (server, client)):
                self._pairs[end] = other
                selector.register(end, selectors.EVENT_READ)
            return
        assert isinstance(ready, socket.socket)
        if ready not in self._pairs:  # cut together with the other end
            return
        try:
            piece = ready.recv(SIZE)
            unlucky = self._random.random() < self.chance
            if piece and not unlucky:
                self._pairs[ready].sendall(piece)
                return
            self.cuts += bool(piece)
        except OSError:
            pass
        self._cut(selector, ready)

    def _cut(self, selector: selectors.BaseSelector, end: socket.socket) -> None:
        """Close both ends of a connection; what was under way is lost."""
        for one in (end, self._pairs[end]):
            del self._pairs[one]
            selector.unregister(one)
            with contextlib.suppress(OSError):
                one.close()
