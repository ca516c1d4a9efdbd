#!/bin/sh
# Starts a Redis and a relay that keeps its registrations there, and registers an environment. Needs exec-server, redis-server and curl on the
# PATH, the file `secret`, and a network of its own. Prints a line for each step.
set -eu
# shellcheck source=scripts/checks.sh
. "$(dirname -- "$0")/checks.sh"

redis-server --bind 127.0.0.1 --port 6379 --save '' --appendonly no >redis-log 2>&1 &
redis=$!
eventually 'Ready to accept connections' redis-log >/dev/null
exec-server relay --secret-file secret --store redis://127.0.0.1:6379 --node-url http://127.0.0.1:1 >relay-redis 2>&1 &
relay=$!
url=$(eventually '^http://' relay-redis)
# Without its store a relay answers 503.
check 'relay: Redis is inside' '200' curl -s -o /dev/null -w '%{http_code}' "$url/readyz"
token=$(exec-server relay token --secret-file secret --role executor --environment box 2>/dev/null)
EXEC_SERVER_API_KEY=$token exec-server serve --remote "$url" --environment-id box >executor-log 2>&1 &
executor=$!
eventually 'connected\|registered' executor-log >/dev/null
check 'relay: Redis has the registration' 'exec-server-relay:{box}:registration' redis-cli --raw keys '*'
kill "$executor" "$relay" "$redis"
wait
