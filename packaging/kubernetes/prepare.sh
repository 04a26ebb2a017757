#!/bin/sh
# Fills the data folder of a gateway before it starts: settings, contracts and policies from CONFIG, keys from KEYS.
#
# The gateway refuses a data folder that other users can write, and keys that they can read. Volumes of Kubernetes have
# such modes, so this copies instead of linking. Files that CONFIG no longer has are removed. As root, it also gives
# everything to OWNER.
set -eu
umask 077

: "${CONFIG:?the folder with mcp_config.json, contracts/ and policies/}"
: "${DATA:?the data folder to fill}"

mkdir -p "$DATA"
chmod 0700 "$DATA"
rm -rf "$DATA/contracts" "$DATA/policies"
for folder in contracts policies; do
    mkdir "$DATA/$folder"
    for file in "$CONFIG/$folder"/*; do
        # A pattern without a match stands for itself.
        [ ! -f "$file" ] || cp -L "$file" "$DATA/$folder/"
    done
done
cp -L "$CONFIG/mcp_config.json" "$DATA/mcp_config.json.new"
mv "$DATA/mcp_config.json.new" "$DATA/mcp_config.json"

if [ -n "${KEYS:-}" ]; then
    for key in admin.key sealing.key; do
        if ! grep -Eqx '[0-9a-f]{64}' "$KEYS/$key"; then
            echo "prepare: $key in the secret is not 64 hexadecimal digits. Create one with: openssl rand -hex 32" >&2
            exit 1
        fi
        cp -L "$KEYS/$key" "$DATA/$key.new"
        mv "$DATA/$key.new" "$DATA/$key"
    done
fi

[ "$(id -u)" -ne 0 ] || chown -R "${OWNER:?the uid and gid of the gateway}" "$DATA"
