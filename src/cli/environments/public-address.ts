import { basename } from 'node:path';

/**
 * The address of a server for people who see it but did not configure it: the scheme and the host of its URL. Users, paths and queries
 * can contain secrets.
 */
export function publicUrl(url: string): string {
  if (url.startsWith('unix:')) return `unix://…/${basename(url)}`;
  if (!URL.canParse(url)) return url.replace(/:.*/s, ':…');
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}
