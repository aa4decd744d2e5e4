#!/bin/sh
# Makes .venv in the project's root and installs cnna with everything it needs; `make` calls it when .venv is missing or
# older than what it is made from. $1 is the Python to use, empty to look for one.
set -eu
cd "$(dirname "$0")/.."

# numpy 1.26, which pynq 4 wants, ends at Python 3.12; cocotb and onnxruntime begin at 3.11.
suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }

python=
for candidate in ${1:-python3 python3.12 python3.11}; do
  if suits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "cnna: needs Python 3.11 or 3.12, and ${1:-python3} is $("${1:-python3}" --version 2>&1 || true): apt install python3, or make PYTHON=/path/to/python3.11" >&2
  exit 2
fi

"$python" -B host/doctor.py

if ! .venv/bin/python -c '' 2>/dev/null; then
  echo "making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi
echo "installing cnna and its tools into .venv (constraints.txt names the versions; about a minute when pip has them cached)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[tools,test]'
touch .venv/installed
