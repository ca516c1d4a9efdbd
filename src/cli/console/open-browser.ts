import { spawn } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { randomHex } from '../../base/random-hex.ts';
import type { Host } from '../commands.ts';
import { privateFolder } from '../private-server/private-folder.ts';
import { REDIRECT_TTL_MS } from './limits.ts';

/** Whether a person is there to see a browser. */
export function hasDisplay({ env, isTerminal }: Pick<Host, 'env' | 'isTerminal'>): boolean {
  return isTerminal && (process.platform === 'darwin' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY));
}

/**
 * Opens the URL in the user's browser. Other users can read command lines, so the browser gets a file that leads to the URL, which only
 * this user can read. Failures are ignored: the URL is printed too.
 */
export function openBrowser(url: string, host: Pick<Host, 'env' | 'onExit'>): void {
  try {
    const file = redirectFile(url, host);
    const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
    const child = spawn(program, [pathToFileURL(file).href], {
      detached: true,
      stdio: 'ignore',
      env: host.env,
    });
    child.once('error', () => {});
    child.unref();
  } catch {}
}

function redirectFile(url: string, host: Pick<Host, 'env' | 'onExit'>): string {
  const file = join(dirname(privateFolder(host.env).socket), `console-${randomHex()}.html`);
  const remove = () => rmSync(file, { force: true });
  const target = JSON.stringify(url).replaceAll('<', '\\u003c');
  writeFileSync(
    file,
    `<!doctype html><meta charset="utf-8"><title>exec-server console</title><script>location.replace(${target})</script>\n`,
    { mode: 0o600, flag: 'wx' },
  );
  host.onExit(remove);
  setTimeout(remove, REDIRECT_TTL_MS).unref();
  return file;
}
