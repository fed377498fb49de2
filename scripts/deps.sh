#!/bin/sh
# Installs the Debian packages that ckptd needs to build and to test. With --if-missing it does nothing when all are there.
set -eu
packages="gcc make pkg-config git libmicrohttpd-dev libjansson-dev libzip-dev libuv1-dev libssl-dev zlib1g-dev libdeflate-dev libseccomp-dev libsqlite3-dev \
libcmocka-dev python3 python3-yaml curl ca-certificates"
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
if [ -z "$missing" ]; then
    [ "${1:-}" = --if-missing ] || echo "all packages are installed"
    exit 0
fi
echo "installing (this takes a minute or two):$missing"
sudo=""
if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || { echo "run this as root: apt-get install$missing" >&2; exit 1; }
fi
export DEBIAN_FRONTEND=noninteractive
# An image of Debian starts without package lists; lists that are too old name files that are gone.
install() {
    # shellcheck disable=SC2086
    $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
install 2>/dev/null || {
    $sudo apt-get update -qq
    install
}
