import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ProcessEvent } from '../../src/client/backend.ts';
import { LocalEnvironment } from '../../src/environment/local-environment.ts';
import { type ConnectedClient, overProxy, overStdio, overWebSocket } from '../support/connected-clients.ts';
import { type BackendUnderTest, processSuite } from '../support/process-suite.ts';
import { shell } from '../support/programs.ts';
import { overRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

processSuite('processes of this machine', async () => {
  const environment = new LocalEnvironment();
  return { backend: environment.backend, close: () => environment.dispose() };
});

processSuite('processes over a websocket', () => remote(overWebSocket()));
processSuite('processes over stdio', () => remote(overStdio()));
processSuite('processes over a relay', () => remote(overRelay()));

async function remote(connecting: Promise<ConnectedClient>): Promise<BackendUnderTest> {
  const { client, close } = await connecting;
  return { backend: client.backend, close };
}

test('after a lost connection output arrives once, and reads and writes complete', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lost-link-'));
  const { client, proxy, close } = await overProxy();
  try {
    const [gate, done] = [join(folder, 'gate'), join(folder, 'done')];
    execFileSync('mkfifo', [gate]);
    const script = `echo ready; cat ${gate}; seq 1 3000; touch ${done}; cat`;
    const process = await client.backend.start({ ...shell('p', script), pipeStdin: true });
    const events: ProcessEvent[] = [];
    const ended = (async () => {
      for await (const event of process.events()) events.push(event);
    })();
    await waitFor('the first output', () => process.revision === 1);

    proxy.interrupt();
    writeFileSync(gate, 'meanwhile\n');
    await waitFor('the output of the outage', () => existsSync(done));
    await waitFor('the client to notice', () => client.state === 'recovering');
    let answered = 0;
    const reading = process.read({ afterSeq: 1 }).finally(() => answered++);
    const writing = process.write('after\n').finally(() => answered++);
    expect([process.revision, answered]).toEqual([1, 0]);

    proxy.restore();
    await writing;
    expect((await reading).chunks[0]).toMatchObject({ seq: 2 });
    expect(client.state).toBe('connected');
    expect(await process.closeStdin()).toBe(true);
    await ended;
    expect(events.map((event) => ('seq' in event ? event.seq : event))).toEqual(
      events.map((_, at) => at + 1),
    );
    const numbers = Array.from({ length: 3000 }, (_, index) => `${index + 1}\n`).join('');
    expect(textOf(events)).toBe(`ready\nmeanwhile\n${numbers}after\n`);
  } finally {
    await close();
    rmSync(folder, { recursive: true });
  }
});

function textOf(events: readonly ProcessEvent[]): string {
  const output = events.flatMap((event) => (event.type === 'output' ? [event.bytes] : []));
  return Buffer.concat(output).toString();
}
