#!/bin/sh
# Makes $VENV from requirements.lock, or leaves it alone where it was made from this very lock and this pyproject.toml.
set -eu

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; }
describe() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "does not run"; }

inputs=$(cat requirements.lock pyproject.toml | cksum)
if [ -f "$VENV/.made-from" ] && [ "$(cat "$VENV/.made-from")" = "$inputs" ] && supported "$VENV/bin/python"; then
  exit 0
fi

if [ -n "${PYTHON:-}" ]; then
  if ! supported "$PYTHON"; then
    echo "Hindcast needs Python 3.11, 3.12 or 3.13; PYTHON=$PYTHON is: $(describe "$PYTHON")." >&2
    exit 1
  fi
else
  for candidate in python3 python3.13 python3.12 python3.11 python; do
    if supported "$candidate"; then PYTHON=$candidate; break; fi
  done
  if [ -z "${PYTHON:-}" ]; then
    echo "Hindcast needs Python 3.11, 3.12 or 3.13; found: python3, which is $(describe python3)." >&2
    echo "Install one of these, or name one that is not on the PATH: make PYTHON=/path/to/python3.12 setup" >&2
    exit 1
  fi
fi

echo "Setting up $VENV with Python $(describe "$PYTHON"): about 220 packages, one to three minutes ..."
rm -f "$VENV/.made-from"
"$PYTHON" -m venv --clear "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
# All cores at once, where pip takes one. Left to the first import, it is done at each where PYTHONDONTWRITEBYTECODE is set.
"$VENV/bin/python" -m compileall -q -j 0 "$VENV/lib" > /dev/null 2>&1 || true  # some packages carry templates that are not Python
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
echo "$inputs" > "$VENV/.made-from"
echo "Done: $VENV is complete."
