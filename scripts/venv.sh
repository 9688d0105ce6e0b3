# Sourced by the scripts beside it: a virtual environment in .venv with this project (and the extras in $extras) installed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "gpu-rsfd needs Python 3.10 or newer; '$python' is $("$python" --version 2>&1 || true). Set PYTHON=/path/to/python3." >&2
    exit 2
fi
extras=${extras:-}
stamp=$root/.venv/.installed${extras:+-$extras}
if [ ! -x "$root/.venv/bin/python" ]; then
    echo "making .venv …" >&2
    rm -rf "$root/.venv"
    "$python" -m venv "$root/.venv"
fi
if [ ! -e "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
    echo "installing gpu-rsfd${extras:+[$extras]} and what it needs into .venv …" >&2
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root${extras:+[$extras]}"
    touch "$stamp"
fi
