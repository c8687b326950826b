"""The command line, for ``python -m headrace``."""

import sys

from headrace.pipeline.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
