#!/usr/bin/env bash
# A CI job on one server: three steps in a row, then two at the same time. A step that fails ends the job with its exit code.
#
#   bash examples/ci.sh
#
# Each step is a command line of a shell, and can be replaced by a variable: TESTS='npm test' bash examples/ci.sh
set -eu

state=$(mktemp -d)
# Only this user can open the socket.
exec-server --listen "unix://$state/socket" --url-file "$state/url" >"$state/log" 2>&1 &
server=$!
finish() {
  kill "$server" 2>/dev/null || true
  wait "$server" || true
  rm -r "$state"
}
trap finish EXIT
until [ -e "$state/url" ]; do
  kill -0 "$server" 2>/dev/null || { cat "$state/log" >&2; exit 125; }
  sleep 0.1
done
# The commands below use this server.
EXEC_SERVER_URL=$(cat "$state/url")
export EXEC_SERVER_URL

step() {
  echo "== $1"
  exec-server run -- sh -c "$2"
}
step checkout "${CHECKOUT:-echo hello >source}"
step build "${BUILD:-tr a-z A-Z <source >product}"
step package "${PACKAGE:-cat product}"

exec-server run -d --name tests -- sh -c "${TESTS:-grep -c HELLO product}" >/dev/null
exec-server run -d --name lint -- sh -c "${LINT:-wc -l <product}" >/dev/null
# Waits for both. The exit code is that of the first one that has failed.
status=0
exec-server wait tests lint || status=$?
for name in tests lint; do
  echo "== $name"
  exec-server logs "$name"
done
exit "$status"
