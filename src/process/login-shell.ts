import { existsSync } from 'node:fs';
import { type UserInfo, userInfo } from 'node:os';
import { basename } from 'node:path';

/** The login shell of this process's user, or the first known shell that exists. Ignores $SHELL, which depends on who started the server. */
export function loginShell(system = SYSTEM): { name: string; path: string } {
  const candidates = [system.passwdEntry()?.shell, '/bin/bash', '/usr/bin/bash', '/bin/zsh', '/bin/sh'];
  for (const path of candidates) {
    if (!path || !system.exists(path)) continue;
    const name = basename(path);
    if (KNOWN_SHELLS.has(name)) return { name, path };
  }
  return { name: 'sh', path: '/bin/sh' };
}

/** Null for a user without a passwd entry, which is common in containers that run under an arbitrary uid. */
export function passwdEntry(): Pick<UserInfo<string>, 'shell' | 'homedir'> | null {
  try {
    return userInfo();
  } catch {
    return null;
  }
}

const KNOWN_SHELLS = new Set(['bash', 'zsh', 'sh']);

/** The user database and the installed programs. */
const SYSTEM = { passwdEntry, exists: (path: string) => existsSync(path) };
