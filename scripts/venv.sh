# Sourced by the scripts beside it: a virtual environment in .venv with this project (and the extras in $1) installed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "gpu-rsfd needs Python 3.10 or newer; '$python' is $("$python" --version 2>&1 || true). Set PYTHON=/path/to/python3." >&2
    exit 2
fi
extras=${1:-}
stamp=.venv/.installed${extras:+-$extras}
if [ ! -x .venv/bin/python ]; then
    echo "making .venv …" >&2
    rm -rf .venv
    "$python" -m venv .venv
fi
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "installing gpu-rsfd${extras:+[$extras]} and what it needs into .venv …" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}"
    touch "$stamp"
fi
