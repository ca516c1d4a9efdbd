import type { ExecServerConfig } from '../server/config/config.ts';

/** What a person can do with a server that has started: use it, protect it, stop it. */
export function nextSteps(
  url: string,
  { wsAuth, tlsClientCa }: Pick<ExecServerConfig, 'wsAuth' | 'tlsClientCa'>,
): string {
  const isProtected = wsAuth !== 'none' || tlsClientCa !== '';
  return `
Ready. Stop it with Ctrl-C. In another terminal:
  exec-server run -E ${url} -- uname
${isProtected ? PROTECTED : url.startsWith('unix:') ? PRIVATE : OPEN}`;
}

const PROTECTED = 'Clients need a token or a certificate.\n';
const PRIVATE = 'There is no password: only this user can open the socket.\n';
const OPEN = `\
There is no password: whoever reaches the port can run programs. To add one:
  exec-server token --out token
  exec-server serve --ws-auth capability-token --ws-token-file token
`;
