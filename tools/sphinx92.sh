#!/usr/bin/env bash
# Run the Sphinx side of the tests on Sphinx 9.2, which needs Python 3.13.
# PYTHON313 names the interpreter when it is not python3.13 on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON313:-python3.13}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 13))' 2>/dev/null; then
    echo "Sphinx 9.2 needs Python 3.13, and '$python' is none: make sphinx92 PYTHON313=/path/to/python3.13" >&2
    exit 3
fi
PYTHON=$python exec tools/sphinx_versions.sh 9.2.0
