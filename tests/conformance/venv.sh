#!/bin/sh
# Prints the Python of the virtual environment that holds the pinned torch and MLX. It is made on the first call, and
# again whenever requirements.txt or the system's Python changes; CKPTD_VENV names another one to be used as it is.
set -eu
cd "$(dirname "$0")/../.."
if [ -n "${CKPTD_VENV:-}" ]; then
    echo "$CKPTD_VENV/bin/python"
    exit 0
fi
venv=$PWD/.cache/conformance-venv
requirements=tests/conformance/requirements.txt
stamp=$(python3 --version 2>/dev/null | cat - "$requirements" | cksum)
if [ -f "$venv/stamp" ] && [ "$(cat "$venv/stamp")" = "$stamp" ]; then
    echo "$venv/bin/python"
    exit 0
fi
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get install -y -qq --no-install-recommends python3-venv >&2 || {
        $sudo apt-get update -qq >&2
        $sudo apt-get install -y -qq --no-install-recommends python3-venv >&2
    }
fi
echo "making $venv (torch, MLX, transformers: some minutes, once)" >&2
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv" >&2
"$venv/bin/python" -m pip install --quiet --no-input -r "$requirements" >"$venv.log" 2>&1 || {
    tail -n 20 "$venv.log" >&2
    echo "the packages of $requirements could not be installed; the whole log is $venv.log" >&2
    exit 1
}
echo "$stamp" >"$venv/stamp"
echo "$venv/bin/python"
