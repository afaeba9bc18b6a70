"""`python -m doxtr_rag` is `doxtr-rag`."""

import sys

from doxtr_rag.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
