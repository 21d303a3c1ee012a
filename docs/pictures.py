"""Take the pictures of the page in docs/how-to: ``python -m docs.pictures [FOLDER]``.

It needs Chromium and its driver, and the extra ``ui``. The memory behind it has the logs of
``graphmem demo``.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import uvicorn

from graphmem import Memory
from graphmem.addresses import listening
from graphmem.cli.learning import logs
from graphmem.seeding import seed, sources
from graphmem.view.page import build
from tests.view.chromium import found, opened

FOLDER = Path(__file__).resolve().parent / "how-to"
TOKEN = "pictures"  # noqa: S105
PICTURES = {
    "look.png": ("near", "inspect the schema before writing the query", 960),
    "curve.png": ("item", "act greedily from optimistic initial values, the best return", 760),
}
"""By file: the view, the beginning of a strategy, and the height in pixels."""
WIDTH = 1000


def main(folder: Path = FOLDER) -> list[Path]:
    """Take all pictures, and return their files."""
    there = found()
    if there is None:
        raise SystemExit("no Chromium: apt-get install chromium chromium-driver")
    with Memory.open("memory:") as memory:
        seed(memory, sources(map(str, logs())))
        ids = {row.text: row.id for row in memory.strategies(limit=100)}
        socket = listening("127.0.0.1", 0)
        host = f"127.0.0.1:{socket.getsockname()[1]}"
        config = uvicorn.Config(build(memory, TOKEN, {host}), log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([socket],))
        thread.start()
        browser = opened(*there)
        try:
            browser.get(f"http://{host}/?token={TOKEN}")
            files = []
            for name, (view, text, height) in PICTURES.items():
                size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                [strategy] = [of for known, of in ids.items() if known.startswith(text)]
                browser.get(f"http://{host}/#/{view}/{strategy}")
                time.sleep(4)  # until it is drawn
                files.append(folder / name)
                browser.save_screenshot(str(files[-1]))
        finally:
            browser.quit()
            server.should_exit = True
            thread.join()
    return files


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
