#!/bin/sh
# Runs a command on a minimal Debian: ROOT is its file system, read-only, and BIN the folder of the executable, read-only too. Only /tmp, /home
# and /run can be written. Started by scripts/test-binary.mjs in mount and pid namespaces of its own.
#
#   enter-debian.sh ROOT BIN COMMAND ARGUMENT…
set -eu
root=$1
bin=$2
shift 2
mount --bind -- "$root" "$root"
mount -o remount,bind,ro -- "$root"
for folder in tmp home run; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
mount -t tmpfs tmpfs "$root/opt"
mkdir "$root/opt/exec-server"
mount --bind -- "$bin" "$root/opt/exec-server"
mount -o remount,bind,ro -- "$root/opt/exec-server"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mkdir "$root/run/old" "$root/home/user" "$root/run/user"
chown 1000:1000 "$root/home/user" "$root/run/user"
chmod 700 "$root/home/user" "$root/run/user"
cd -- "$root"
pivot_root . run/old
umount -l /run/old
cd /home/user
# Not as root, and with an empty environment. It ends with unshare --kill-child: a change of the user would clear that.
exec setpriv --pdeathsig keep --reuid=1000 --regid=1000 --clear-groups env -i HOME=/home/user XDG_RUNTIME_DIR=/run/user \
  PATH=/opt/exec-server:/usr/bin:/bin:/usr/sbin "$@"
