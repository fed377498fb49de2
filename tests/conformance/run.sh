#!/bin/sh
# The conformance suite: real torch writes checkpoints, ckptd converts them, real torch and real MLX judge every
# value. Arguments choose tests as for unittest: `run.sh test_layout`, `run.sh -k resnet`. CKPTD_BUILD names the build
# folder (default build). CKPTD_CHECKPOINTS names a folder of real checkpoints with a manifest.json for test_checkpoints
# (its head describes both); those tests are skipped without it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/venv.sh")
cd "$here/../.."
CKPTD_BUILD=${CKPTD_BUILD:-build}
[ -x "$CKPTD_BUILD/ckptd" ] || { echo "no $CKPTD_BUILD/ckptd: run make first" >&2; exit 1; }
export CKPTD_BUILD HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/main.py" "$@"
