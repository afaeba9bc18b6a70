#!/usr/bin/env bash
# Run the Sphinx side of the tests on each Sphinx version named on the command line.
# Each version gets an environment outside the checkout, so that a fresh clone finds it again.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/doxtr-rag/venvs

environment_for() {
    local version=$1 key folder
    key=$(cat pyproject.toml - <<<"$("$python" --version)" | sha256sum | cut -c 1-12)
    folder=$cache/$key-$version
    if [ ! -e "$folder/.complete" ]; then
        echo "installing Sphinx $version into $folder" >&2
        rm -rf "$folder"
        mkdir -p "$cache"
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install -qq "sphinx==$version" -e '.[dev]' >&2
        # The environment outlives this checkout, so it must not point at it.
        "$folder/bin/python" -m pip uninstall -qq -y doxtr-rag >&2
        touch "$folder/.complete"
    fi
    echo "$folder"
}

for version in "$@"; do
    folder=$(environment_for "$version")
    echo "-- Sphinx $version"
    PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} "$folder/bin/python" -m pytest -q \
        -m "sphinx_side and not gpu" -p no:cacheprovider
done
