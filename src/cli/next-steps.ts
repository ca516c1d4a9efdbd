import { resolve } from 'node:path';
import type { ExecServerConfig } from '../server/config/config.ts';
import { commandLine } from './terminal-text.ts';

/** What a person can do with a server that has started: use it, protect it, stop it. */
export function nextSteps(
  url: string,
  { wsAuth, wsTokenFile, tlsClientCa }: Pick<ExecServerConfig, 'wsAuth' | 'wsTokenFile' | 'tlsClientCa'>,
): string {
  const isProtected = wsAuth !== 'none' || tlsClientCa !== '';
  const token = wsTokenFile === '' ? [] : ['--token-file', resolve(wsTokenFile)];
  return `
Ready. Stop it with Ctrl-C. In another terminal:
  ${commandLine(['exec-server', 'run', '-E', url, ...token, '--', 'uname'])}
${isProtected ? PROTECTED : url.startsWith('unix:') ? PRIVATE : OPEN}`;
}

const PROTECTED = 'Clients need a token or a certificate.\n';
const PRIVATE = 'There is no password: only this user can open the socket.\n';
const OPEN = `\
There is no password: whoever reaches the port can run programs. To add one:
  exec-server token --out token
  exec-server serve --ws-auth capability-token --ws-token-file token
`;
