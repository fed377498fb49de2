#!/bin/sh
# From nothing to a converted checkpoint: installs what is missing, builds, starts a daemon on a free loopback port
# with a data folder of its own, converts demo/digits.pt by curl, shows what came of every tensor, checks the values,
# stops the daemon.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
say() {
    printf '\n== %s\n' "$*"
}

say "installing what is missing, building"
scripts/deps.sh --if-missing
make --no-print-directory -s -j"$(nproc)" BUILD="$BUILD" all
case $BUILD in
/*) binary=$BUILD/ckptd ;;
*) binary=$PWD/$BUILD/ckptd ;;
esac
checkpoint=$PWD/demo/digits.pt
show=$PWD/demo/show.py

work=$(mktemp -d)
daemon=""
stop() {
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
        daemon=""
    fi
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
host=127.0.0.1:$port
say "starting the daemon on $host"
"$binary" serve --listen "$host" --data "$work/data" >"$work/log" 2>&1 &
daemon=$!
i=0
until curl -fsS -o /dev/null "http://$host/readyz" 2>/dev/null; do
    i=$((i + 1))
    if [ $i -gt 100 ] || ! kill -0 "$daemon" 2>/dev/null; then
        cat "$work/log" >&2
        echo "the daemon did not start" >&2
        exit 1
    fi
    sleep 0.1
done

cd "$work"
for quant in "" q4/; do
    say "curl -fOJT demo/digits.pt http://$host/v1/convert/mlx/$quant"
    rm -f ./*.zip
    curl -fsS -OJT "$checkpoint" "http://$host/v1/convert/mlx/$quant"
    zip=$(ls ./*.zip)
    echo "  -> ${zip#./}, $(wc -c <"$zip") bytes (the checkpoint has $(wc -c <"$checkpoint"))"
    python3 "$show" "$checkpoint" "$zip"
done

say "stopping the daemon"
kill "$daemon"
wait "$daemon" || true
daemon=""

cat <<'END'

That is all. To go on with models of your own:

    make run                                                            # the daemon on 127.0.0.1:8080
    curl -fOJT model.pt http://127.0.0.1:8080/v1/convert/mlx/           # -> model.mlx.zip
    curl -fOJT model.pt http://127.0.0.1:8080/v1/convert/mlx/q4/        # -> model.mlx-q4.zip
    build/ckptd convert model.pt out --to mlx --quant q4                # without a server

In Python, on a machine with MLX: mx.load("out/model.safetensors"), or load_weights("out/model.safetensors") of an
mlx.nn.Module with PyTorch's names. report.json beside it says what was done to every tensor, and on what evidence.
END
