"""The command ``python -m tests.fuzz``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of the tests, as under pytest

from fuzz.running import main

sys.exit(main())
