import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectInMemory, startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { isAlive } from '../support/machine.ts';
import { base64, shell, terminal } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const PRINT_30_KB = 'i=0; while [ $i -lt 300 ]; do printf "%099d\\n" $i; i=$((i+1)); done; printf END';
const EXPECTED = `${Array.from({ length: 300 }, (_, i) => `${String(i).padStart(99, '0')}\n`).join('')}END`;

describe('every byte arrives', () => {
  let server: TestServer;
  let client: TestClient;

  beforeAll(async () => {
    server = await startServer();
    client = await server.connect();
  });
  afterAll(() => server.close());

  test('of 200 concurrent terminals and 200 pipes that print 30 KB and exit immediately', async () => {
    const ids = Array.from({ length: 400 }, (_, i) => (i % 2 === 0 ? `pipe-${i}` : `pty-${i}`));
    await Promise.all(
      ids.map((id) =>
        client.call('process/start', (id.startsWith('pty') ? terminal : shell)(id, PRINT_30_KB)),
      ),
    );
    for (const id of ids) {
      const events = await client.closedProcess(id);
      expect(events.text().replaceAll('\r\n', '\n') === EXPECTED, `${id} is complete`).toBe(true);
      expect(events.exitCode).toBe(0);
      expect(events.repeated).toBe(0);
    }
  });

  test.each(['pipe', 'pty'])('of a %s process that exits while the client does not read', async (kind) => {
    const { client: slow, serverEnd, close } = connectInMemory({ outboundHighWaterBytes: 100_000 });
    await slow.handshake();
    const start = kind === 'pty' ? terminal : shell;
    const script = `stty -echo 2>/dev/null; echo pid=$$; read go; ${PRINT_30_KB}`;
    await slow.call('process/start', { ...start('quiet', script), pipeStdin: true });
    await slow.waitFor((message) => message.method === 'process/output');
    const pid = Number(/pid=(\d+)/.exec(slow.process('quiet').text())?.[1]);

    serverEnd.setCongested(true);
    await slow.call('process/start', shell('flood', 'yes'));
    await slow.call('process/write', { processId: 'quiet', chunk: base64('go\n'), writeId: '1' });
    if (kind === 'pipe') await waitFor('the program to exit', () => !isAlive(pid));
    await slow.call('process/terminate', { processId: 'flood' });
    serverEnd.setCongested(false);

    const events = await slow.closedProcess('quiet');
    expect(events.text().replaceAll('\r\n', '\n')).toBe(`pid=${pid}\n${EXPECTED}`);
    await close();
  });

  test('of both streams, each in its own order', async () => {
    const script = 'for i in $(seq 1 2000); do echo out$i; echo err$i >&2; done';
    await client.call('process/start', shell('both', script));
    const events = await client.closedProcess('both');
    const lines = (word: string) => `${Array.from({ length: 2000 }, (_, i) => `${word}${i + 1}\n`).join('')}`;
    expect(events.text('stdout')).toBe(lines('out'));
    expect(events.text('stderr')).toBe(lines('err'));
  });

  test('of a grandchild that outlives the program, between exited and closed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'completeness-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const fifo = join(folder, 'fifo');
    await client.call(
      'process/start',
      shell('late', `mkfifo ${fifo}; (read go < ${fifo}; echo late) & echo first; exit 7`),
    );
    await client.waitFor(
      (message) => message.method === 'process/exited' && client.process('late').exitCode === 7,
    );
    writeFileSync(fifo, 'go\n');
    const events = await client.closedProcess('late');
    expect(events.events.map((event) => event.kind)).toEqual(['output', 'exited', 'output', 'closed']);
    expect(events.text()).toBe('first\nlate\n');
    expect(events.exitCode).toBe(7);
  });

  test('unchanged: all byte values survive', async () => {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const script = `printf '${[...all].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')}'`;
    await client.call('process/start', shell('bytes', script));
    expect((await client.closedProcess('bytes')).bytes('stdout').equals(all)).toBe(true);
  });
});
