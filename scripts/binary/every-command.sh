#!/bin/sh
# Uses every kind of command of the single executable. Runs on a minimal Debian, see enter-debian.sh. Prints a line for each.
set -eu

# shellcheck source=scripts/checks.sh
. /opt/exec-server/checks.sh

! command -v node >/dev/null || { echo 'FAILED: this Debian has Node' && exit 1; }
! touch /opt/exec-server/file 2>/dev/null || { echo 'FAILED: the folder of the executable can be written' && exit 1; }

check 'version' 'exec-server ' exec-server version
check 'help' 'Runs programs' exec-server help
check 'completion' 'complete' exec-server completion bash
check 'config' 'listen' exec-server config
check 'run: exit code' 'hello-3' sh -c 'exec-server run -- sh -c "printf hello-; exit 3" || printf %s $?'
check 'run: terminal' '/dev/pts/' script -qec 'exec-server run -t -- tty' /dev/null
check 'shell' 'in-a-shell' script -qec 'exec-server shell' /dev/null <<'END'
echo in-a-sh''ell; exit
END
succeeds 'run -d' exec-server run -d --name job -- sh -c 'echo started; sleep 1000'
check 'ps' 'job' exec-server ps
check 'logs' 'started' sh -c 'timeout 20 exec-server logs -f job | head -n 1'
succeeds 'kill' exec-server kill job
check 'wait' '137' sh -c 'exec-server wait job || printf %s $?'
succeeds 'rm' exec-server rm job
exec-server run -d --name short -- sh -c 'echo attached; sleep 1; exit 7' >/dev/null
exits 'attach: exit code' 7 'attached' exec-server attach short
mkdir -p tree/a/b && seq 100000 >tree/a/b/numbers
succeeds 'cp' exec-server cp -r tree local:/home/user/copy
check 'cp: content' 'same' sh -c 'cmp tree/a/b/numbers copy/a/b/numbers && echo same'
succeeds 'sync' exec-server sync tree local:/home/user/synced
check 'sync: content' 'same' sh -c 'cmp tree/a/b/numbers synced/a/b/numbers && echo same'
check 'run --record' 'recorded' exec-server run --record --name tape -- echo recorded
check 'recordings' 'tape' exec-server recordings
check 'export' 'recorded' exec-server export --txt tape
check 'play' 'recorded' script -qec 'exec-server play tape' /dev/null
check 'doctor: sandboxes' 'Sandboxes are reliable' exec-server doctor
mkdir -p project
check 'run --sandbox' 'inside' sh -c 'cd project && exec-server run --sandbox workspace-write -- sh -c "echo inside | tee file"'
exits 'run --sandbox: refusal' 2 'Read-only' sh -c 'cd project && exec-server run --sandbox workspace-write -- sh -c "echo x > /home/user/outside"'
check 'mcp config' '"command": "exec-server"' exec-server mcp config claude

# The MCP server writes and searches files through the sandboxed file helper.
mkfifo requests
exec-server mcp <requests >answers 2>mcp-errors &
exec 9>requests
cat >&9 <<'END'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"note.txt","content":"a needle here\n"}}}
END
eventually '"id":2' answers >/dev/null
echo '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search_files","arguments":{"pattern":"needle"}}}' >&9
check 'mcp' 'note.txt' eventually '"id":3' answers
exec 9>&-

exec-server console --port 0 >console-link 2>&1 </dev/null &
console=$!
url=$(eventually 'http://127' console-link | grep -o 'http://127[^ ]*')
check 'console: page' '<script' curl -s "$(echo "$url" | sed 's|/console.*|/console/|')"
asset=$(curl -s "$(echo "$url" | sed 's|/console.*|/console/|')" | grep -o 'assets/[^"]*\.js' | head -n 1)
check 'console: asset' '200' curl -s -o /dev/null -w '%{http_code}' "$(echo "$url" | sed 's|/console.*|/console/|')$asset"
kill "$console"

succeeds 'token' exec-server token --out secret
exec-server relay --secret-file secret >relay-url 2>&1 &
relay=$!
url=$(eventually '^http://' relay-url)
check 'relay' '200' curl -s -o /dev/null -w '%{http_code}' "$url/readyz"
exec-server port-forward "0:${url##*:}" >forwarded 2>&1 &
forward=$!
port=$(eventually ' -> ' forwarded | sed 's/.*:\([0-9]*\) -> .*/\1/')
check 'port-forward' '200' curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/readyz"
kill "$forward"

# A server with an audit log, which clients reach through the relay.
exec-server serve --listen ws://127.0.0.1:0 --audit-log audit.jsonl >server-url 2>server-log &
server=$!
EXEC_SERVER_API_KEY=$(exec-server relay token --secret-file secret --role executor --environment box 2>/dev/null)
export EXEC_SERVER_API_KEY
exec-server connect --connect "$(eventually '^ws://' server-url)" --remote "$url" --environment-id box >connect-log 2>&1 &
connect=$!
unset EXEC_SERVER_API_KEY
exec-server relay token --secret-file secret --role harness --environment box >client-token 2>/dev/null
succeeds 'env' exec-server env add box "$url" --token-file client-token
eventually 'connected' connect-log >/dev/null
check 'connect' 'relayed' exec-server run -E box -- echo relayed
succeeds 'use' sh -c 'cd project && exec-server use box'
check 'use: commands in the directory' 'chosen' sh -c 'cd project && exec-server run -- echo chosen'
kill "$connect" "$server" "$relay"
wait "$server" || true
check 'audit' 'lines' exec-server audit verify audit.jsonl
mkfifo proxy-requests
exec-server proxy <proxy-requests >proxy-answers 2>proxy-errors &
exec 9>proxy-requests
echo '{"id":1,"method":"initialize","params":{"clientName":"test"}}' >&9
check 'proxy' 'sessionId' eventually '"id":1' proxy-answers
exec 9>&-

# These have fixed ports, so they get a network of their own.
for script in use-redis use-service; do
  bwrap --dev-bind / / --unshare-net --die-with-parent sh "/opt/exec-server/$script.sh"
done

succeeds 'run -d: a program to wait for' exec-server run -d -- sleep 1
check 'drain' 'has ended' exec-server drain

commands=$(exec-server help | grep '^  ' | grep -o '[a-z][a-z-]*  *[A-Z]' | cut -d' ' -f1)
[ "$(echo "$commands" | wc -l)" -ge 30 ] || fail "help lists only: $commands"
for command in $commands; do
  grep -q "exec-server $command" /opt/exec-server/*.sh || fail "no step uses exec-server $command"
done
echo 'ok all commands of help'

check 'nothing is left in /tmp' 'empty' sh -c 'test -z "$(ls -A /tmp)" && echo empty || ls -A /tmp'
# The host connects to this server and uses the worker threads. It ends with the namespace.
exec exec-server --listen ws://127.0.0.1:0
