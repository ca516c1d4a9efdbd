// Minimal Debian systems for tests that need a clean machine. debootstrap makes them, because no registry of images is needed for that.
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from './package-cache.mjs';

const run = promisify(execFile);
const MIRROR = 'http://deb.debian.org/debian';

/**
 * The folder with the file system of a Debian that has these packages, and what every Debian has. It is kept in the cache, because
 * debootstrap takes minutes. Do not write to it. Needs root.
 */
export async function ensureDebian(suite, packages) {
  const folder = join(cacheFolder(), ['debian', suite, ...packages].join('-'));
  if (existsSync(folder)) return folder;
  mkdirSync(cacheFolder(), { recursive: true });
  const staging = mkdtempSync(join(cacheFolder(), 'debian-'));
  try {
    await run('debootstrap', ['--variant=minbase', `--include=${packages}`, suite, staging, MIRROR]);
    await run('find', [...UNNEEDED.map((path) => join(staging, path)), '-type', 'f', '-delete']);
    // Users other than root enter it.
    chmodSync(staging, 0o755);
    renameSync(staging, folder);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
  return folder;
}

/** What images such as debian:*-slim leave out too. */
const UNNEEDED = ['var/cache/apt', 'var/lib/apt/lists', 'usr/share/doc', 'usr/share/man', 'usr/share/locale'];
