#!/bin/sh
# Ratios of ckptd to what a user would run instead, all in one run: cp, mx.quantize, torch with safetensors, openssl, nginx. Needs
# about 14 GB under $CKPTD_BUILD/bench, which it removes again. BENCH_MIB sets the size of the models (default 1024),
# BENCH_ROUNDS how often (default 5); arguments choose parts: mixed linear quantize curl memory
# blobs downloads matrix tiny queue.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../conformance/venv.sh")
cd "$here/../.."
CKPTD_BUILD=${CKPTD_BUILD:-build}
[ -x "$CKPTD_BUILD/ckptd" ] || { echo "no $CKPTD_BUILD/ckptd: run make first" >&2; exit 1; }
for tool in nginx:nginx-light wrk:wrk openssl:openssl; do
    command -v "${tool%%:*}" >/dev/null || { echo "the benchmark needs ${tool%%:*}: apt-get install ${tool##*:}" >&2; exit 1; }
done
export CKPTD_BUILD PYTHONDONTWRITEBYTECODE=1
"$python" "$here/bench.py" "$@"
[ $# -gt 0 ] || exec "$python" "$here/load.py"
