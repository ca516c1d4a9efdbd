import { readFileSync } from 'node:fs';

/** The version in package.json, which is two folders up both in the sources and in the build. */
export const VERSION: string = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
).version;
