#!/usr/bin/env bash
# Runs tests with every Python from 3.11 to 3.13 that is here, each with the locked versions in .venv-VERSION, and says which
# are missing. `--others` leaves out the Python of .venv, and `--none` all; `--lowest` adds the lowest versions that
# pyproject.toml allows, in .venv-lowest. The rest are arguments of pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
versions="3.11 3.12 3.13" lowest=no
while true; do
  case ${1:-} in
    --others) versions=${versions/$own/} ;;
    --none) versions="" ;;
    --lowest) lowest=yes ;;
    *) break ;;
  esac
  shift
done

found() {  # The shim of pyenv may have a name for a Python that is not active.
  local one
  for one in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if "$one" -c '' 2>/dev/null; then
      "$one" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

failed=()
for version in $versions; do
  python=$(found "$version")
  if [[ -z $python ]]; then
    echo "Python $version is not here: it was not tested"
    continue
  fi
  echo "Python $version: $python"
  place=.venv-$version
  if [[ ! $place/.ready -nt requirements/dev.txt ]]; then
    $uv venv --quiet --clear --python "$python" "$place"
    $uv pip install --quiet --python "$place" --require-hashes --requirement requirements/dev.txt
    $uv pip install --quiet --python "$place" --no-deps --editable .
    touch "$place/.ready"
  fi
  "$place/bin/python" -m pytest "$@" || failed+=("Python $version")
done
if [[ $lowest == yes ]]; then
  echo "lowest versions, Python $own"
  if [[ ! .venv-lowest/.ready -nt pyproject.toml ]]; then
    $uv venv --quiet --clear --python .venv/bin/python .venv-lowest
    $uv pip install --quiet --python .venv-lowest --resolution lowest-direct --editable '.[dev]'
    touch .venv-lowest/.ready
  fi
  # Old packages warn of what newer ones have changed: here that is no error.
  .venv-lowest/bin/python -m pytest -W default --disable-warnings "$@" || failed+=("lowest versions")
fi
if (( ${#failed[@]} )); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
