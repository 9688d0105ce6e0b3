# Sourced: the Python that makes virtual environments, in $python.
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "gpu-rsfd needs Python 3.10 or newer; '$python' is $("$python" --version 2>&1 || true). Set PYTHON=/path/to/python3." >&2
    exit 2
fi
