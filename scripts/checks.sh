#!/bin/sh
# Functions for shell scripts that use the commands of an installation. Each step prints a line.

fail() { # fail MESSAGE
  printf 'FAILED %s\n' "$1"
  exit 1
}

check() { # check NAME PATTERN COMMAND…: the command exits with 0, and its output contains the pattern
  name=$1
  shift
  exits "$name" 0 "$@"
}

exits() { # exits NAME CODE PATTERN COMMAND…: the command exits with this code, and its output contains the pattern
  name=$1
  expected=$2
  pattern=$3
  shift 3
  code=0
  output=$("$@" 2>&1) || code=$?
  [ "$code" = "$expected" ] || fail "$name: exit code $code instead of $expected, with this output:
$output"
  case $output in
    *"$pattern"*) printf 'ok %s\n' "$name" ;;
    *) fail "$name: expected \"$pattern\" in:
$output" ;;
  esac
}

succeeds() { # succeeds NAME COMMAND…
  name=$1
  shift
  "$@" >output 2>&1 || { printf 'FAILED %s:\n' "$name" && cat output && exit 1; }
  printf 'ok %s\n' "$name"
}

eventually() { # eventually PATTERN FILE: waits until the file contains a line with the pattern, and prints that line
  for _ in $(seq 300); do
    grep -m1 -- "$1" "$2" 2>/dev/null && return
    sleep 0.1
  done
  printf 'FAILED: no "%s" in:\n' "$1" >&2
  cat "$2" >&2
  return 1
}
