/** What to do about a bwrap that is not there, or not one that can be trusted. */
export const INSTALL_BWRAP =
  'install the package bubblewrap (apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)';

/** What helps against what bwrap says, with the command where there is one; null when that is not known. */
export function fixFor(complaint: string): string | null {
  return FIXES.find(([pattern]) => pattern.test(complaint))?.[1] ?? null;
}

/** What bwrap says, and what helps. The first that matches counts. */
const FIXES: readonly (readonly [RegExp, string])[] = [
  [
    /mount proc/i,
    'a container that hides parts of /proc forbids it; start the container with an unmasked /proc (docker run --security-opt systempaths=unconfined)',
  ],
  [
    /uid map|capset|loopback/i,
    'AppArmor may restrict user namespaces; allow them to bwrap with a profile, or to everybody (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)',
  ],
  [
    /namespace|user_namespaces/i,
    'allow user namespaces (sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000); in a container, allow unshare in its seccomp profile',
  ],
  [/seccomp/i, 'this kernel needs CONFIG_SECCOMP_FILTER'],
  [
    /\/proc\/self\/fd\//,
    'allow programs in memory to be executed (sysctl -w vm.memfd_noexec=1, or 0 where that is not enough)',
  ],
];
