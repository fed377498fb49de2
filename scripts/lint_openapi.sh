#!/bin/sh
# openapi.yaml under the linter's recommended rules, examples included: no errors and no warnings. The linter is the one of
# scripts/openapi-lint/package-lock.json, installed into .cache on the first call and when the lock changes; nothing is global.
set -eu
cd "$(dirname "$0")/.."
lock=scripts/openapi-lint/package-lock.json
cache=$PWD/.cache/openapi-lint
command -v npm >/dev/null || {
    echo "lint_openapi: needs npm: apt-get install nodejs npm" >&2
    exit 1
}
stamp=$(node --version | cat - "$lock" | cksum)
if [ ! -f "$cache/stamp" ] || [ "$(cat "$cache/stamp")" != "$stamp" ]; then
    rm -rf "$cache"
    mkdir -p "$cache"
    cp scripts/openapi-lint/package.json "$lock" "$cache"
    npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund --silent
    echo "$stamp" >"$cache/stamp"
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
exec "$cache/node_modules/.bin/redocly" lint --config scripts/openapi-lint/redocly.yaml --max-problems 1000 "$@" openapi.yaml
