# Sourced by the scripts beside it: a virtual environment in .venv with this project (editable) and the extras in $extras.
# Extras stay: .venv/.extras remembers all that were ever asked for, and a reinstall brings them again.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/python.sh"
venv=$root/.venv
state=$root/pyproject.toml
known=" $(sed -n '/^\[project.optional-dependencies\]/,/^\[tool/s/^\([a-z][a-z0-9-]*\) = .*/\1/p' "$state" | tr '\n' ' ')"
for extra in ${extras:-}; do
    case "$known" in
        *" $extra "*) ;;
        *) echo "unknown extra '$extra'; available:$known" >&2; exit 2 ;;
    esac
done
remembered=$(cat "$venv/.extras" 2>/dev/null || true)
wanted=$(for extra in ${extras:-} $remembered; do
    case "$known" in *" $extra "*) echo "$extra" ;; esac # one that pyproject.toml has no more is forgotten
done | sort -u | paste -s -d , -)
# what is installed where and for what: if any of it differs, it is installed again
stamp="$root
[$wanted] $(cksum <"$state")"
if [ ! -x "$venv/bin/python" ] || { [ -e "$venv/.stamp" ] && [ "$(head -n 1 "$venv/.stamp")" != "$root" ]; }; then
    echo "making .venv …" >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
if [ "$(cat "$venv/.stamp" 2>/dev/null)" != "$stamp" ] ||
    ! grep -qs '"editable": true' "$venv"/lib/python*/site-packages/gpu_rsfd-*.dist-info/direct_url.json; then
    echo "installing gpu-rsfd${wanted:+[$wanted]} and what it needs into .venv …" >&2
    rm -f "$venv/.stamp"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root${wanted:+[$wanted]}"
    echo "$wanted" | tr ',' '\n' >"$venv/.extras"
    echo "$stamp" >"$venv/.stamp"
fi
