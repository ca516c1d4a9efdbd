#!/bin/sh
# Installs the single executable of exec-server for Linux. Verifies its SHA-256, and changes nothing but the program's file.
#
#   sh install.sh [--from FOLDER-OR-URL] [--prefix FOLDER]
set -eu
RELEASE=https://github.com/exec-server/exec-server/releases/latest/download

usage() {
  cat <<'END'
Usage: sh install.sh [--from FOLDER-OR-URL] [--prefix FOLDER]

Installs exec-server as FOLDER/bin/exec-server.

  --from      where exec-server-linux-x64 (or -arm64) and SHA256SUMS are: a folder, or an
              http:// or https:// URL. The default is the folder of this script if it has
              them, else the latest release.
  --prefix    where to install. The default is ~/.local.
END
}

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

# Everything is in a function, so that a script that was cut off while it was downloaded runs nothing.
main() {
  from=
  prefix=
  while [ $# -gt 0 ]; do
    case $1 in
      --from | --prefix)
        [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
        case $1 in --from) from=$2 ;; *) prefix=$2 ;; esac
        shift 2
        ;;
      --from=*) from=${1#*=} && shift ;;
      --prefix=*) prefix=${1#*=} && shift ;;
      -h | --help) usage && exit 0 ;;
      *) fail "unknown argument '$1'; see sh install.sh --help" ;;
    esac
  done
  if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'HOME is not set; pass --prefix FOLDER'
    prefix=$HOME/.local
  fi

  [ "$(uname -s)" = Linux ] || fail "the executable is for Linux, and this is $(uname -s); install the npm package instead"
  case $(uname -m) in
    x86_64 | amd64) name=exec-server-linux-x64 ;;
    aarch64 | arm64) name=exec-server-linux-arm64 ;;
    *) fail "there is no executable for $(uname -m); install the npm package instead" ;;
  esac
  if ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* >/dev/null 2>&1; then
    fail 'the executable needs the GNU C library, and this system uses musl; install the npm package instead'
  fi
  if [ -z "$from" ]; then
    from=$(dirname -- "$0")
    # A script that comes from a pipe has no file. One that was downloaded alone may be beside the checksums of something else.
    [ -f "$0" ] && [ -f "$from/SHA256SUMS" ] && [ -f "$from/$name" ] || from=$RELEASE
  fi
  command -v sha256sum >/dev/null || fail 'sha256sum is missing; install coreutils'

  case $prefix in
    # The line for PATH must work in every folder.
    [!/]*) prefix=$(pwd)/$prefix ;;
  esac
  mkdir -p -- "$prefix/bin" || fail "cannot create $prefix/bin"
  # In the same folder as the program, so that the last step is a rename.
  work=$(mktemp -d -- "$prefix/bin/.exec-server-XXXXXX") || fail "cannot write to $prefix/bin"
  trap 'rm -rf -- "$work"' EXIT
  trap 'exit 1' HUP INT TERM

  get SHA256SUMS
  get "$name"
  grep -- "^[0-9a-f]\{64\}  $name\$" "$work/SHA256SUMS" >"$work/expected" || fail "SHA256SUMS has no line for $name"
  # BusyBox has no long options, and names them in a message.
  (cd -- "$work" && sha256sum -c expected >/dev/null 2>&1) ||
    fail "the SHA-256 of $name is not the one in SHA256SUMS; nothing was installed. Download it again"
  chmod 755 -- "$work/$name"
  version=$("$work/$name" --version) || fail "$name does not run on this system; it needs glibc 2.28 and libstdc++6"
  # mv would put the file into a folder of that name.
  [ ! -d "$prefix/bin/exec-server" ] || fail "$prefix/bin/exec-server is a folder; remove it, or pass another --prefix"
  mv -f -- "$work/$name" "$prefix/bin/exec-server"

  printf 'Installed %s: %s\n' "$version" "$prefix/bin/exec-server"
  case :${PATH:-}: in
    *":$prefix/bin:"*) printf "Try it: exec-server run -- echo hello\n" ;;
    *)
      printf '%s is not in your PATH. This adds it to the current shell; put the line into the start file of your shell to keep it:\n' "$prefix/bin"
      # The shell that reads the line expands PATH.
      # shellcheck disable=SC2016
      printf '  export PATH="%s:$PATH"\n' "$prefix/bin"
      ;;
  esac
}

# Copies or downloads a file into the work folder.
get() {
  case $from in
    http://* | https://*)
      url=${from%/}/$1
      # No redirect may lead from https to http.
      case $url in https:*) protocols=https ;; *) protocols=http,https ;; esac
      if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --proto "=$protocols" --output "$work/$1" -- "$url" || fail "cannot download $url"
      elif command -v wget >/dev/null; then
        # wget 2 follows no redirect to http with --https-only. wget 1 does, so its log is searched for one.
        only=
        [ "$protocols" != https ] || only=--https-only
        wget -nv --server-response ${only:+"$only"} -O "$work/$1" -- "$url" >"$work/log" 2>&1 ||
          fail "cannot download $url: $(tail -n 1 -- "$work/log")"
        if [ -n "$only" ] && grep -qi '^ *location: *http:' "$work/log"; then
          fail "cannot download $url: the server redirects to http, which is not encrypted"
        fi
      else
        fail 'neither curl nor wget is installed'
      fi
      ;;
    *)
      [ -f "$from/$1" ] || fail "there is no file $from/$1; pass --from FOLDER-OR-URL"
      cp -- "$from/$1" "$work/$1" || fail "cannot copy $from/$1"
      ;;
  esac
}

main "$@"
