"""`python -m epicast` is `epicast`."""

import sys

from epicast.cli import main

if __name__ == "__main__":
    sys.exit(main())
