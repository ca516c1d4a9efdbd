#!/bin/sh
# Installs, uses, drains and removes the services of a server and of a relay, as an ordinary user, without systemd: systemctl.sh stands in for
# systemctl. Needs exec-server, systemd-analyze, systemd-socket-activate and curl on the PATH, and a network of its own. Prints a line for each step.
#
#   sh use-service.sh
set -eu
here=$(dirname -- "$0")
# shellcheck source=scripts/checks.sh
. "$here/checks.sh"

verify() { # verify NAME: systemd accepts the installed units
  units=$HOME/.config/systemd/user
  succeeds "service: systemd-analyze verify $1" systemd-analyze --user --man=no verify "$units/$1.socket" "$units/$1.service"
  # It reports unknown options, and succeeds.
  ! grep "$1" output || fail 'service: a unit has problems'
}

# Other commands keep files there too, and `env add` below writes environments.toml.
configured() { find .config -type f ! -name environments.toml 2>/dev/null | sort; }
configured >before

exits 'service: refuses a machine without systemd' 1 'systemctl' exec-server service install --user
[ ! -e "$HOME/.config/systemd" ] || fail 'service: it wrote units'

bin=$(mktemp -d)
trap 'rm -r "$bin"' EXIT
cp "$here/systemctl.sh" "$bin/systemctl"
chmod 755 "$bin/systemctl"
PATH=$bin:$PATH

succeeds 'service: install' exec-server service install --user
cp output installed
verify exec-server
check 'service: status before the first connection' 'exec-server.service: inactive (dead)' exec-server service status --user
# The command that install has printed.
try=$(sed -n 's/^Try it: //p' installed)
check 'service: the first connection starts the server' 'hello' sh -c "$try"
check 'service: status' 'exec-server.service: active (running)' exec-server service status --user
exits 'service: refuses clients without the token' 125 '401' exec-server run -E ws://127.0.0.1:4000 -- true
check 'service: programs do not have the token' 'none' \
  sh -c "${try% echo hello} sh -c 'env | grep -F \"\$0\" || echo none' \"\$(cat .config/exec-server/service-token)\""
check 'service: drain' 'has ended' exec-server drain --service --user
check 'service: a connection after the drain starts it again' 'hello' sh -c "$try"

succeeds 'service: install --relay' exec-server service install --user --relay
verify exec-server-relay
check 'service: the first connection starts the relay' '200' \
  curl --silent --output /dev/null --write-out '%{http_code}' --retry 5 http://127.0.0.1:4080/readyz
secret=$HOME/.config/exec-server/relay-secret
for role in executor harness; do
  succeeds "service: relay token --role $role" \
    exec-server relay token --secret-file "$secret" --role "$role" --environment served --out "$role.token"
done
EXEC_SERVER_API_KEY=$(cat executor.token) exec-server serve --remote http://127.0.0.1:4080 --environment-id served >executor.log 2>&1 &
executor=$!
succeeds 'service: env add' exec-server env add served http://127.0.0.1:4080 --token-file harness.token
eventually 'connected\|registered' executor.log >/dev/null
check 'service: a client runs a program through the relay' 'relayed' exec-server run -E served -- echo relayed
kill "$executor"

check 'service: uninstall --relay' 'removed' exec-server service uninstall --user --relay
check 'service: uninstall' 'removed' exec-server service uninstall --user
configured >after
check 'service: nothing is left' 'none' sh -c 'diff before after && echo none'
