"""`python -m marmix`."""

import sys

from marmix.cli import main

if __name__ == "__main__":
    sys.exit(main())
