"""``python -m oddarms``, which is ``oddarms``."""

import sys

from oddarms.cli import main

if __name__ == "__main__":
    sys.exit(main())
