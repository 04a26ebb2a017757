#!/bin/sh
# Installs a Debian package in an overlay over this machine's root, tries it, and purges it: try-deb.sh PACKAGE.
#
# Run it in mount and process namespaces of its own: unshare --mount --pid --fork sh try-deb.sh PACKAGE
set -eu

package=$1
overlay=/mnt
mount -t tmpfs tmpfs "$overlay"
mkdir "$overlay/changes" "$overlay/work" "$overlay/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$overlay/changes,workdir=$overlay/work" "$overlay/root"
mount --rbind /dev "$overlay/root/dev"
mount -t proc proc "$overlay/root/proc"
mount -t tmpfs tmpfs "$overlay/root/tmp"
cp "$package" "$overlay/root/tmp/mcpproxy.deb"

cat >"$overlay/root/tmp/try.sh" <<'TRY'
set -eu
home=/var/lib/mcpproxy
export DEBIAN_FRONTEND=noninteractive

fail() {
    echo "try-deb: $*" >&2
    exit 1
}

is() {
    found=$(stat -c '%U:%G %a' "$1")
    [ "$found" = "$2" ] || fail "$1 is $found, and should be $2"
}

export HOME="$home" MCPPROXY_HOME="$home"
as_service="setpriv --reuid=mcpproxy --regid=mcpproxy --clear-groups --no-new-privs --"

dpkg -i /tmp/mcpproxy.deb
is "$home" "mcpproxy:mcpproxy 700"
is /etc/mcpproxy "root:mcpproxy 750"
is /etc/mcpproxy/contracts "root:mcpproxy 750"
is /etc/mcpproxy/mcp_config.json "root:mcpproxy 640"
[ "$(readlink "$home/contracts")" = /etc/mcpproxy/contracts ] || fail "no link to the contracts"
$as_service mcpproxy config check

# The settings and contracts of /etc are in force, and the service cannot change them.
sed -i 's/"mcpServers": {/"mcpServers": { "demo": { "type": "demo" },/' /etc/mcpproxy/mcp_config.json
printf -- '- tool: demo:list_projects\n  riskLevel: forbidden\n' >/etc/mcpproxy/contracts/demo.yaml
chgrp mcpproxy /etc/mcpproxy/contracts/demo.yaml
chmod 640 /etc/mcpproxy/contracts/demo.yaml
$as_service sh -c 'echo x >> /etc/mcpproxy/mcp_config.json' 2>/dev/null && fail "the service can change its settings"
$as_service mcpproxy serve --listen 127.0.0.1:0 >/tmp/gateway.log 2>&1 &
gateway=$!
tries=0
until $as_service mcpproxy status >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "no gateway: $(cat /tmp/gateway.log)"
    sleep 0.2
done
$as_service mcpproxy call tool-write demo:create_note --args '{"projectId": "p_website", "title": "Installed"}'
! $as_service mcpproxy call tool-read demo:list_projects --args '{}' || fail "a forbidden tool was called"
kill "$gateway"
wait "$gateway" || fail "the gateway did not end well: $(cat /tmp/gateway.log)"

# An upgrade keeps the settings, a removal too, and a purge keeps only the data.
dpkg -i /tmp/mcpproxy.deb
grep -q '"demo"' /etc/mcpproxy/mcp_config.json || fail "an upgrade replaced the settings"
dpkg -r mcpproxy
[ ! -e /usr/bin/mcpproxy ] || fail "the program is still there"
[ -e /etc/mcpproxy/mcp_config.json ] || fail "a removal deleted the settings"
dpkg --purge mcpproxy
[ ! -e /etc/mcpproxy/mcp_config.json ] || fail "a purge left the settings"
[ -e "$home/mcpproxy.db" ] || fail "a purge deleted the activity log"
[ ! -L "$home/mcp_config.json" ] || fail "a purge left a broken link"
echo "installed, served with the settings of /etc as its own user, upgraded, removed and purged"
TRY

chroot "$overlay/root" sh /tmp/try.sh
