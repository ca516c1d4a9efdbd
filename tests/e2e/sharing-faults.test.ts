import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startServer, TestClient, type TestServer } from '../../src/testing/index.ts';
import { type MessageAction, MessageProxy, type PassingMessage } from '../support/message-proxy.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const RETAINED_BYTES = 1024 * 1024;

async function connect(clientName: string, url = server.url, processSharing = true): Promise<TestClient> {
  const client = await TestClient.connect(url);
  await client.handshake({ clientName, detachedSessionTtlMs: 0, capabilities: { processSharing } });
  return client;
}

const skipped = (client: TestClient) =>
  client.received
    .filter(({ method }) => method === 'process/skipped')
    .map(({ params }) => params as { fromSeq: number; toSeq: number });

describe("a driver's connection that is cut", () => {
  const SCRIPT = 'echo ready; while read line; do echo "got $line"; done';

  /** One client starts a process and writes two lines; another takes over, now or when the first is gone, and ends it. */
  async function handOver(decide: (message: PassingMessage) => MessageAction) {
    const proxy = await MessageProxy.open(server.url, decide);
    const [next, name] = [await connect('next'), `job-${++jobs}`];
    onTestFinished(() => Promise.all([next.close(), proxy.close()]).then(() => {}));
    let isCut = false;
    const driver = await TestClient.connect(proxy.url);
    const drive = async () => {
      await driver.handshake({
        clientName: 'driver',
        detachedSessionTtlMs: 0,
        capabilities: { processSharing: true },
      });
      await driver.call('process/start', {
        ...shell('p', SCRIPT),
        pipeStdin: true,
        name,
        lifetime: { type: 'detached' },
      });
      for (const [index, line] of ['one', 'two'].entries()) {
        await driver.call('process/write', {
          processId: 'p',
          chunk: base64(`${line}\n`),
          writeId: `${index}`,
        });
      }
    };
    await Promise.race([drive(), driver.closed.then(() => Promise.reject(new Error('cut')))]).catch(() => {
      isCut = true;
    });
    const { processes } = await next.call('process/list', { scope: 'owner' });
    const started = processes.find((process) => process.name === name);
    if (started === undefined) return { log: proxy.log, isCut, text: null };
    const { processId, role } = await next.call('process/attach', {
      name,
      role: 'driver',
      takeOver: true,
      afterSeq: 0,
    });
    expect(role).toBe('driver');
    await next.call('process/write', { processId, chunk: base64('last\n'), writeId: 'last' });
    await next.call('process/closeStdin', { processId });
    const events = await next.closedProcess(processId);
    expect([events.exitCode, events.repeated]).toEqual([0, 0]);
    await driver.close();
    return { log: proxy.log, isCut, text: events.text() };
  }
  let jobs = 0;

  test('hands the process over at every message boundary', async () => {
    const whole = await handOver(() => 'pass');
    expect(whole).toMatchObject({ isCut: false, text: 'ready\ngot one\ngot two\ngot last\n' });
    const outcomes = new Set<string>();
    for (let cut = 0; cut < whole.log.length; cut++) {
      const { text } = await handOver(({ index }) =>
        index === cut ? 'last' : index > cut ? 'swallow' : 'pass',
      );
      if (text === null) continue;
      // What the first driver wrote before the cut, then what the next one wrote.
      expect(text).toMatch(/^ready\n(got one\n(got two\n)?)?got last\n$/);
      outcomes.add(text);
    }
    expect(outcomes.size).toBeGreaterThan(1);
  });
});

describe('two drivers that fight', () => {
  test('never write at the same time', async () => {
    const owner = await connect('owner');
    const rivals = [await connect('a'), await connect('b')];
    onTestFinished(() => Promise.all([owner, ...rivals].map((client) => client.close())).then(() => {}));
    const { ref } = await owner.call('process/start', { ...shell('p', 'cat'), pipeStdin: true });
    const accepted: string[] = [];
    await Promise.all(
      rivals.map(async (rival, index) => {
        for (let round = 0; round < 40; round++) {
          await rival.call('process/attach', { ref: ref!, role: 'driver', takeOver: true });
          const line = `${index} ${round}\n`;
          const write = rival.call('process/write', { processId: ref!, chunk: base64(line) });
          await write.then(
            () => accepted.push(line),
            (error) => expect(error).toMatchObject({ code: -32011 }),
          );
        }
      }),
    );
    for (const rival of rivals) await rival.call('process/detach', { processId: ref! });
    await owner.call('process/closeStdin', { processId: 'p' });
    const output = (await owner.closedProcess('p')).text();
    expect(accepted.length).toBeGreaterThan(0);
    expect(output.split('\n').filter(Boolean).sort()).toEqual(accepted.map((line) => line.trim()).sort());
  });
});

describe('a viewer that does not read', () => {
  const MEGABYTES = 64;
  const FLOOD = `head -c ${MEGABYTES * 1024 * 1024} /dev/zero`;

  test('costs a bounded amount of memory, and neither the program nor the driver waits for it', async () => {
    const limited = await startServer({ outboundHighWaterBytes: RETAINED_BYTES });
    onTestFinished(() => limited.close());
    const owner = await connect('owner', limited.url);
    const { ref } = await owner.call('process/start', {
      ...shell('p', `read go; ${FLOOD}`),
      pipeStdin: true,
    });
    const viewers = await Promise.all(Array.from({ length: 4 }, () => connect('viewer', limited.url)));
    for (const viewer of viewers) {
      await viewer.call('process/attach', { ref: ref! });
      viewer.setReading(false);
    }
    await owner.call('process/write', { processId: 'p', chunk: base64('go\n') });
    const events = await owner.closedProcess('p');
    expect(events.bytes().length).toBe(MEGABYTES * 1024 * 1024);

    for (const viewer of viewers) {
      viewer.setReading(true);
      await viewer.waitFor(({ method }) => method === 'process/closed');
      const gaps = skipped(viewer);
      const missed = gaps.reduce((count, { fromSeq, toSeq }) => count + toSeq - fromSeq + 1, 0);
      const seen = viewer.process(ref!).events;
      // Every event was sent or reported as skipped, and the last two were sent.
      expect(missed + seen.length).toBe(events.events.length);
      expect(seen.slice(-2).map(({ kind }) => kind)).toEqual(['exited', 'closed']);
      // What waited for it: the socket, the queue up to its mark, and what was retained in the end.
      expect(viewer.process(ref!).bytes().length).toBeLessThan((MEGABYTES / 2) * 1024 * 1024);
      expect(gaps.length).toBeGreaterThan(0);
      await viewer.close();
    }
    await owner.close();
  });
});

describe('a client that does not know `process/skipped`, was taken over, and does not read', () => {
  test('does not stop the program, and learns from its output what it missed', async () => {
    const limited = await startServer({ outboundHighWaterBytes: RETAINED_BYTES });
    onTestFinished(() => limited.close());
    const [old, driver] = [await connect('old', limited.url, false), await connect('driver', limited.url)];
    await old.call('process/start', {
      ...shell('p', 'read go; head -c 16777216 /dev/zero; read go; echo bye'),
      pipeStdin: true,
    });
    const { ref } = (await driver.call('process/list', { scope: 'owner' })).processes[0]!;
    await driver.call('process/attach', { ref: ref!, role: 'driver', takeOver: true });
    const press = () => driver.call('process/write', { processId: ref!, chunk: base64('go\n') });
    old.setReading(false);
    await press();
    const received = () => driver.process(ref!).bytes().length;
    await waitFor('all output at the driver', () => received() === 16_777_216);
    old.setReading(true);
    const count = (client: TestClient, processId: string) => client.process(processId).events.length;
    await waitFor('the same at the other', () => count(old, 'p') === count(driver, ref!));
    await press();
    const [whole, seen] = [await driver.closedProcess(ref!), await old.closedProcess('p')];
    expect(skipped(old)).toEqual([]);
    expect([seen.exitCode, seen.repeated, seen.events.length]).toEqual([0, 0, whole.events.length]);
    expect(seen.text()).toMatch(
      /\[events \d+ to \d+ of this process were skipped: another client drives it, and this client reads too slowly\]/,
    );
    expect(seen.text()).toMatch(/bye\n$/);
    expect(seen.bytes().length).toBeLessThan(16_777_216);
    await Promise.all([old.close(), driver.close()]);
  });
});

test('a viewer that attaches at any moment of a short process gets its end, or learns that it is gone', async () => {
  const [owner, viewer] = [await connect('owner'), await connect('viewer')];
  onTestFinished(() => Promise.all([owner.close(), viewer.close()]).then(() => {}));
  const attaching: Promise<void>[] = [];
  for (let round = 0; round < 60; round++) {
    const { ref } = await owner.call('process/start', shell(`p${round}`, 'echo out'));
    attaching.push(
      (async () => {
        for (let turns = 0; turns < round; turns++) await new Promise(setImmediate);
        const { closed } = await viewer.call('process/attach', { ref: ref!, afterSeq: 0 });
        const events = await viewer.closedProcess(ref!);
        expect([events.text(), events.exitCode, typeof closed]).toEqual(['out\n', 0, 'boolean']);
      })(),
    );
  }
  await Promise.all(attaching);
});

test('a thousand attaches and detaches over many connections leave nothing', async () => {
  const owner = await connect('owner');
  const { ref } = await owner.call('process/start', shell('p', 'sleep 60'));
  for (let round = 0; round < 20; round++) {
    const viewer = await connect('viewer');
    for (let index = 0; index < 50; index++) {
      const [attached] = await Promise.all([
        viewer.call('process/attach', { ref: ref! }),
        viewer.call('process/detach', { processId: ref! }),
      ]);
      expect(attached.role).toBe('viewer');
    }
    await viewer.call('process/attach', { ref: ref!, role: 'driver', takeOver: true });
    await (round % 2 === 0 ? viewer.drop() : viewer.close());
  }
  const listed = async () => (await owner.call('process/list', {})).processes[0]!.attached;
  const alone = JSON.stringify([{ client: 'owner', role: 'driver' }]);
  await waitFor('the end of all attachments', async () => JSON.stringify(await listed()) === alone);
  await owner.close();
});
