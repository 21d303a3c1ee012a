"""``python -m graphmem``: the command line, if the command ``graphmem`` is not on the path."""

from graphmem.cli import main

if __name__ == "__main__":
    main()
