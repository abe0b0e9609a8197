"""`python -m evenhand` is `evenhand`."""

import sys

from evenhand.cli import main

if __name__ == "__main__":
    sys.exit(main())
