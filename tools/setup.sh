#!/bin/sh
# Makes .venv in the project's root and installs cnna with everything it needs; `make` calls it when .venv is missing or
# older than what it is made from. $1 is the Python to use, empty to look for one.
set -eu
cd "$(dirname "$0")/.."

case $PWD in
*[[:space:]]*)
  echo "cnna: $PWD: Verilator and make take no path with a space in it; move the clone to one without" >&2
  exit 2
  ;;
esac

# cocotb, onnx and onnxruntime in constraints.txt are made for these.
suits() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

python=
for candidate in ${1:-python3 python3.13 python3.12 python3.11}; do
  if suits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  found=$({ "${1:-python3}" --version || echo missing; } 2>&1 | tail -1)
  echo "cnna: needs Python 3.11, 3.12 or 3.13, and ${1:-python3} is $found: apt install python3, or make PYTHON=/path/to/one" >&2
  exit 2
fi

"$python" -B cli/prerequisites.py

if ! .venv/bin/python -c '' 2>/dev/null; then
  echo "making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi
# A sign of life every half minute, until this shell ends. `sleep` holds no output open: a pipe behind `make` would wait for it.
beat() {
  while sleep 30 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    echo "still installing; $(find .venv/lib -name '*.dist-info' | wc -l) packages are there"
  done
}

echo "installing cnna and its tools into .venv (constraints.txt names the versions; about a minute when pip has them cached)"
beat &
beat=$!
trap 'kill $beat 2>/dev/null || true' EXIT
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[tools,board,serve,trace,bench,test]'
kill $beat
trap - EXIT
# Python looks beside the program first. In the folder that holds a clone named cnna, pip's editable install would let it take the
# clone for the package; a package on its path goes before a plain folder.
mkdir -p .venv/links && ln -sfn ../../api .venv/links/cnna
echo "$PWD/.venv/links" > "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/cnna_links.pth"
touch .venv/installed
