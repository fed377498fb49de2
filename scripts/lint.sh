#!/bin/sh
# Formatting, static analysis and the layer rules. Installs clang-format and cppcheck when they are missing.
set -eu
cd "$(dirname "$0")/.."
missing=""
for tool in clang-format cppcheck; do
    command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    # shellcheck disable=SC2086
    $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
        $sudo apt-get update -qq
        # shellcheck disable=SC2086
        $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
    }
fi
scripts/check_layers.sh
# Headers are laid out by hand: their tables and aligned comments are the manual.
# shellcheck disable=SC2046
clang-format --dry-run -Werror $(git ls-files '*.c')
# What the documents say of errors, settings, options, metrics and routes comes from the code's tables.
scripts/generate_tables.py --check --binary "${BUILD:-build}/ckptd"
scripts/lint_openapi.sh
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=preprocessorErrorDirective -I. -D_GNU_SOURCE core api server
echo "lint: clean"
