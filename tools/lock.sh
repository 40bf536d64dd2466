#!/usr/bin/env bash
# Writes requirements/: what `make` installs, with the hashes of all files that the index has, for every Python and
# system that pliant supports. plain.txt is what pliant needs, dev.txt all that its development needs too.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() {
  "${UV:-.venv/bin/uv}" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-header --no-emit-index-url --no-emit-find-links "$@" pyproject.toml
}
mkdir -p requirements
lock --upgrade --extra dev --extra docs --extra standards --output-file requirements/dev.txt
# The same versions, whatever the tools ask for.
lock --upgrade --constraint requirements/dev.txt --output-file requirements/plain.txt
