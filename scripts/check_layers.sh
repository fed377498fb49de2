#!/bin/sh
# The law of the layers: server -> api -> core -> libraries. Prints every include that points upward, and what core/ must not do.
set -eu
cd "$(dirname "$0")/.."
bad=0
complain() {
    echo "layers: $1" >&2
    bad=1
}
hits=$(grep -nE '#include "(api|server)/' -r core --include='*.[ch]' || true)
[ -z "$hits" ] || complain "core/ includes from above:
$hits"
hits=$(grep -nE '#include "server/' -r api --include='*.[ch]' || true)
[ -z "$hits" ] || complain "api/ includes from above:
$hits"
hits=$(grep -nE '#include <(microhttpd|seccomp|sqlite3|sys/socket)' -r core api --include='*.[ch]' || true)
[ -z "$hits" ] || complain "core/ and api/ know no sockets, stores or sandboxes:
$hits"
hits=$(grep -nE '[^_a-z](exit|_exit|abort|getenv|syslog|printf|perror)\(' -r core --include='*.c' | grep -vE '"[^"]*\b(exit|abort)\(' || true)
[ -z "$hits" ] || complain "core/ never logs, exits or reads the environment:
$hits"
hits=$(grep -nE '[^_a-z](strcpy|strcat|sprintf|gets|strtok|atoi|alloca)\(' -r core api server --include='*.[ch]' || true)
[ -z "$hits" ] || complain "banned functions:
$hits"
exit $bad
