#!/usr/bin/env bash
# Run the Sphinx side of the tests on each Sphinx version named on the command line.
#   --prepare          only make the environments
#   --skip VERSION     leave out that version, when it ran elsewhere
# Each version gets an environment outside the checkout, so that a fresh clone finds it again.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/doxtr-rag/venvs
prepare_only=
skipped=
versions=()
while [ $# -gt 0 ]; do
    case $1 in
        --prepare) prepare_only=yes ;;
        --skip) skipped=$2; shift ;;
        *) versions+=("$1") ;;
    esac
    shift
done

# Enough of the checkout for pip to see what the package needs, so that nothing is written into it.
needs() {
    mkdir -p "$1/doxtr_rag"
    cp pyproject.toml README.md LICENSE "$1"
    cp doxtr_rag/__init__.py "$1/doxtr_rag"
}

environment_for() {
    local version=$1 key folder scratch
    key=$(cat pyproject.toml - <<<"$("$python" --version)" | sha256sum | cut -c 1-12)
    folder=$cache/$key-$version
    if [ ! -e "$folder/.complete" ]; then
        echo "installing Sphinx $version into $folder" >&2
        rm -rf "$folder"
        mkdir -p "$cache"
        "$python" -m venv "$folder"
        scratch=$(mktemp -d)
        needs "$scratch"
        "$folder/bin/python" -m pip install -qq "sphinx==$version" "$scratch[dev]" >&2
        # Tests import the checkout they lie in, never an installed copy.
        "$folder/bin/python" -m pip uninstall -qq -y doxtr-rag >&2
        rm -rf "$scratch"
        touch "$folder/.complete"
    fi
    echo "$folder"
}

for version in "${versions[@]}"; do
    if [ "$version" = "$skipped" ]; then
        echo "-- Sphinx $version: left out, its tests ran before"
        continue
    fi
    folder=$(environment_for "$version")
    [ -z "$prepare_only" ] || continue
    echo "-- Sphinx $version"
    PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} "$folder/bin/python" -m pytest -q \
        -m "sphinx_side and not gpu" -p no:cacheprovider
done
