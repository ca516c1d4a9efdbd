import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Console, type ConsoleOptions } from '../../../src/console/console.ts';
import { ConsoleServer } from '../../../src/console/console-server.ts';
import { createLogger } from '../../../src/observability/log.ts';
import type { Transport } from '../../../src/transport/transport.ts';
import { ConsoleBrowser } from '../../support/console-browser.ts';

type Grant = { revoked: boolean; owner?: string };

/** Creates a page with one asset, and a file that is none, for one test. */
function pageFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'console-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(
    join(folder, 'index.html'),
    '<html data-served-by="SERVED_BY"><title>Console</title><script src="/console/assets/console-1.js"></script>',
  );
  writeFileSync(join(folder, 'assets', 'console-1.js'), 'main();'.repeat(100));
  writeFileSync(join(folder, 'secret.txt'), 'secret');
  return folder;
}

/** Answers each message with the same text. */
export function echo(transport: Transport): Promise<void> {
  return new Promise((resolve) => {
    transport.open({
      message: (text) => void transport.send(text),
      undecodable: () => {},
      drained: () => {},
      ended: () => {},
      closed: () => resolve(),
    });
  });
}

/** Serves a console with two environments, whose connections echo. */
export async function start(options: Partial<ConsoleOptions<Grant>> = {}) {
  const clock = { nowMs: Date.now() };
  const log = createLogger('error', () => {});
  const closedLinks: string[] = [];
  const console = new Console<Grant>(
    {
      version: '1.2.3',
      tls: false,
      pageFolder: pageFolder(),
      log,
      environments: [
        { name: 'one', label: 'One', address: 'ws://one', directory: null, default: true },
        { name: 'two', label: 'Two', address: 'ws://two', directory: null, default: false },
      ],
      scopesOf: () => ({
        exec: true,
        observe: true,
        processes: true,
        files: 'write',
        net: true,
        metrics: false,
        below: null,
      }),
      isReadOnly: () => false,
      ownerOf: ({ owner = 'ann' }) => owner,
      expiryOf: () => null,
      isGranted: ({ revoked }) => !revoked,
      connect: async (_, name) => ({
        serve: (transport) => echo(transport),
        close: () => closedLinks.push(name),
      }),
      machine: async (_, name) => (name === 'one' ? { hostname: 'here' } : null),
      authorize: null,
      ...options,
    },
    { now: () => clock.nowMs },
  );
  const server = new ConsoleServer(console, 0, log);
  const origin = await server.listen();
  onTestFinished(() => server.close());
  const grant = { revoked: false };
  const signedIn = (as: Grant = grant) =>
    ConsoleBrowser.open(`${origin}/console/#code=${console.issueCode(as)}`);
  return { console, clock, origin, closedLinks, grant, signedIn, stranger: new ConsoleBrowser(origin) };
}
