#!/usr/bin/env bash
# Run the Sphinx side of the tests on each Sphinx version named on the command line.
#   --prepare          only make the environments
#   --skip VERSION     leave out that version, when it ran elsewhere
# Each version gets an environment outside the checkout, so that a fresh clone finds it again.
set -euo pipefail
shopt -s inherit_errexit
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
        # A copy, so that pip writes nothing into the checkout.
        cp -r pyproject.toml README.md LICENSE doxtr_rag "$scratch"
        "$folder/bin/python" -m pip install -qq "sphinx==$version" "$scratch[dev]" >&2
        # Tests import the checkout they lie in, never an installed copy.
        "$folder/bin/python" -m pip uninstall -qq -y doxtr-rag >&2
        rm -rf "$scratch"
        touch "$folder/.complete"
    fi
    echo "$folder"
}

run_tests() {
    PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} "$1/bin/python" -m pytest -q \
        -m "sphinx_side and not gpu" -p no:cacheprovider
}

folders=()
for version in "${versions[@]}"; do
    if [ "$version" = "$skipped" ]; then
        echo "-- Sphinx $version: left out, its tests ran before"
    else
        folders+=("$(environment_for "$version")")
    fi
done
[ -z "$prepare_only" ] || exit 0

# Two versions at a time: one waits for processes most of the time.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=0
for ((first = 0; first < ${#folders[@]}; first += 2)); do
    pids=()
    pair=("${folders[@]:first:2}")
    for at in "${!pair[@]}"; do
        run_tests "${pair[at]}" >"$logs/$at" 2>&1 &
        pids+=("$!")
    done
    for at in "${!pair[@]}"; do
        wait "${pids[at]}" || failed=1
        echo "-- Sphinx ${pair[at]##*-}"
        cat "$logs/$at"
    done
done
exit "$failed"
