import type { Readable, Writable } from 'node:stream';
import { createLogger } from '../observability/log.ts';
import { UsageError } from './failures.ts';
import { asRunError, openAuth, startExecutor } from './registry-auth.ts';
import { type GivenFlags, parseToolFlags } from './tool-flags.ts';

/** The surroundings of a forwarder. */
export interface ForwardHost {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
  readonly stderr: Writable;
  onSignal(listener: () => void): void;
}

export const FORWARD_HELP = `\
Usage: exec-server forward --connect URL --remote URL --environment-id ID
                           [options]

Makes a server that listens here reachable through a relay. Each harness gets a
connection of its own to the server; nothing is kept when either end is lost.

Options:
  --connect URL        The server: ws://HOST:PORT or wss://HOST:PORT.
  --remote URL         The registry: https://HOST, or http:// on this machine.
  --environment-id ID  The environment as which harnesses find the server.
  --name NAME          A name for logs.
  --executor-credential-stdin
                       Read credentials for the registry from stdin, as lines
                       of JSON; the end of stdin ends the forwarder. Otherwise
                       EXEC_SERVER_API_KEY or CODEX_API_KEY has the credential.
  --exit-on-stdin-close
                       End when stdin ends.
  -h, --help           Print this help.
`;

/** Forwards until a signal arrives; returns what to print. */
export async function forwardCommand(argv: readonly string[], host: ForwardHost): Promise<string> {
  const flags = parseToolFlags('forward', argv, OPTIONS);
  if (flags.help) return FORWARD_HELP;
  const [url, remote] = [required(flags, 'connect'), required(flags, 'remote')];
  const environmentId = required(flags, 'environment-id');
  if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol)) {
    throw new UsageError('forward: --connect is no ws:// or wss:// URL');
  }
  const stopped = new Promise<void>((resolve) => {
    host.onSignal(resolve);
    if (flags['exit-on-stdin-close']) host.stdin.once('end', resolve).once('error', () => resolve());
  });
  const registry = { remote, environmentId, credentialStdin: flags['executor-credential-stdin'] === true };
  const { auth, ready, ended } = await openAuth(registry, host);
  if (flags['exit-on-stdin-close']) host.stdin.resume();
  const log = createLogger('warn', (line) => host.stderr.write(line));
  try {
    if (!(await Promise.race([ready, stopped.then(() => false)]))) return '';
    const { forwardStream } = await import('../relay/forward/forward-stream.ts');
    const executor = await startExecutor(registry, {
      auth,
      log,
      accept: (stream) => {
        forwardStream(stream, { url }).catch((error: Error) => {
          log.warn('the server cannot be reached', { reason: error.message });
        });
      },
      ...(flags.name !== undefined && { name: flags.name }),
    });
    await Promise.race([executor.ended, ended, stopped]).finally(() => executor.close());
    return '';
  } catch (error) {
    throw asRunError(error);
  }
}

type Flags = GivenFlags<typeof OPTIONS>;

function required(flags: Flags, name: 'connect' | 'remote' | 'environment-id'): string {
  const value = flags[name]?.trim();
  if (value) return value;
  throw new UsageError(`forward needs --${name}; try 'exec-server forward --help'`);
}

const OPTIONS = {
  connect: { type: 'string' },
  remote: { type: 'string' },
  'environment-id': { type: 'string' },
  name: { type: 'string' },
  'executor-credential-stdin': { type: 'boolean' },
  'exit-on-stdin-close': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;
