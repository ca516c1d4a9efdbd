#!/bin/sh
# Stands in for `systemctl` on a machine where systemd does not run, so that `exec-server service` can be tested there. Starts what the installed
# units say with systemd-socket-activate, a plain program: it listens at the address of the socket unit, and the first connection starts the
# command line of the service unit with its variables, folders, credentials and account. When the service has ended with 0, it listens again, as
# systemd does.
set -eu
if [ "$1" = --user ]; then
  shift
  units=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
  home=$HOME
  state=$HOME/.local/state
  runtime=$XDG_RUNTIME_DIR
  account=
else
  units=/etc/systemd/system
  home=/
  state=/var/lib
  runtime=/run
  # The first of the accounts that systemd allocates for DynamicUser=yes.
  account=61184
fi
verb=$1
shift
states=$runtime/systemctl

# option UNIT NAME: the values of an option, one per line, with their specifiers replaced
option() {
  sed -n "s|^$2=||p" "$units/$1" |
    sed "s|%h|$home|g; s|%S|$state|g; s|%t|$runtime|g; s|%d|$states/credentials|g; s|%%|%|g"
}

# folders NAME: the folders that belong to the service NAME
folders() {
  for folder in $(option "$1.service" StateDirectory); do echo "$state/$folder"; done
  for folder in $(option "$1.service" RuntimeDirectory); do echo "$runtime/$folder"; done
}

# listen NAME: repeats the service NAME until it fails. The process id of each run is in a file.
listen() {
  variables=$(option "$1.service" Environment; grep -hv '^ *\(#\|$\)' "$(option "$1.service" EnvironmentFile)" || true)
  for folder in $(folders "$1"); do install -d -m 700 ${account:+-o "$account" -g "$account"} "$folder"; done
  for credential in $(option "$1.service" LoadCredential); do
    install -D -m 400 -o "$account" "${credential#*:}" "$states/credentials/${credential%%:*}"
  done
  directory=$(option "$1.service" WorkingDirectory)
  cd "${directory:-$home}"
  address=$(option "$1.socket" ListenStream)
  command=$(option "$1.service" ExecStart)
  as_account=${account:+setpriv --reuid=$account --regid=$account --clear-groups --no-new-privs --bounding-set=-all}
  # The values of the tests contain no quotes and no spaces.
  # shellcheck disable=SC2086
  set -- -l "$address" $(printf -- '-E %s ' $variables)
  while (
    RELAY_OPTIONS=
    eval "set -- \"\$@\" $as_account $command"
    sh -c 'echo $$ >"$0" && exec systemd-socket-activate "$@"' "$states/$name.pid" "$@"
  ); do :; done
}

# is_started NAME: whether a connection has started the service
is_started() {
  [ -e "$states/$1.pid" ] || return 1
  program=$(cat "/proc/$(cat "$states/$1.pid")/comm" 2>/dev/null) || return 1
  case $program in systemd-socket*) return 1 ;; esac
}

case $verb in
  show-environment | daemon-reload) ;;
  enable) # --now NAME.socket
    name=${2%.socket}
    mkdir -p "$states"
    # With redirections of the call itself, dash would keep the descriptors of the caller open.
    (
      exec </dev/null >"$states/$name.log" 2>&1
      listen "$name"
    ) &
    echo $! >"$states/$name.loop"
    for _ in $(seq 100); do
      grep -q 'Listening on' "$states/$name.log" && exit 0
      sleep 0.1
    done
    cat "$states/$name.log" >&2
    exit 1
    ;;
  disable) # --now NAME.socket NAME.service
    name=${2%.socket}
    for pid in $(cat "$states/$name.loop" "$states/$name.pid"); do
      kill "$pid" 2>/dev/null || true
      while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.1; done
    done
    rm -f "$states/$name."*
    for folder in $(option "$name.service" RuntimeDirectory); do rm -r "${runtime:?}/$folder"; done
    ;;
  show) # --property=NAME --value UNIT
    name=${3%.*}
    case ${1#--property=}:$3 in
      MainPID:*) is_started "$name" && cat "$states/$name.pid" || echo 0 ;;
      ActiveState:*.socket) echo active ;;
      SubState:*.socket) is_started "$name" && echo running || echo listening ;;
      ActiveState:*) is_started "$name" && echo active || echo inactive ;;
      SubState:*) is_started "$name" && echo running || echo dead ;;
    esac
    ;;
  *)
    echo "systemctl.sh: unexpected $verb" >&2
    exit 1
    ;;
esac
