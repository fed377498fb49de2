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
# The README's table of options is written for people, but names what the code names.
for option in $(sed -n 's/^    X(\([a-z_]*\), *\(PAIRS\|CHOICE\|TEXT\|BYTES\),.*/\1/p' core/job/options.h); do
    grep -q "^| \`$option\` |" README.md || { echo "README.md does not describe the option $option" >&2; exit 1; }
done
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=preprocessorErrorDirective -I. -D_GNU_SOURCE core api server
echo "lint: clean"
