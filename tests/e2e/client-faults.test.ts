import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecProcess } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { ClientError } from '../../src/client/errors.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { type Fate, MessageProxy, type Passing } from '../support/message-proxy.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const SCRIPT = 'echo ready; while read line; do echo "got $line"; echo "e $line" >&2; done; echo bye; exit 3';
const LINES = ['one', 'two', 'three'];
const STDOUT = `ready\n${LINES.map((line) => `got ${line}\n`).join('')}bye\n`;
const STDERR = LINES.map((line) => `e ${line}\n`).join('');

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

/** What the consumer of a session got, in the order it got it. */
interface Story {
  readonly stdout: string;
  readonly stderr: string;
  readonly seqs: readonly number[];
  readonly exitCode: number | null;
  readonly lost: number;
}

/** Connects and starts the program, as a caller does who tries again what may be tried again. */
async function begin(url: string): Promise<{ client: ExecServerClient; process: ExecProcess }> {
  const client = await again('connecting', () => ExecServerClient.connect({ url, recoveryWindowMs: 15_000 }));
  let starts = 0;
  const process = await again('starting', () =>
    client.backend.start({ ...shell(`p${++starts}`, SCRIPT), pipeStdin: true }),
  );
  return { client, process };
}

async function again<T>(what: string, attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 0; attempts < 4; attempts++) {
    try {
      return await attempt();
    } catch (error) {
      const lost = error instanceof ClientError && (error.retryable || error.kind === 'brokenPipe');
      if (!lost) throw error;
    }
  }
  throw new Error(`${what} never succeeded`);
}

/** One session from its beginning to its end through a proxy. */
async function play(
  judge: (message: Passing) => Fate,
  pipelined: boolean,
): Promise<{ story: Story; log: Passing[] }> {
  const proxy = await MessageProxy.open(server.url, judge);
  const { client, process } = await begin(proxy.url);
  const telling = tell(process);
  const inputs = LINES.map((line) => () => process.write(`${line}\n`));
  if (pipelined) {
    const statuses = await Promise.all([...inputs.map((write) => write()), process.closeStdin()]);
    expect(statuses).toEqual(['accepted', 'accepted', 'accepted', true]);
  } else {
    for (const write of inputs) expect(await write()).toBe('accepted');
    expect(await process.closeStdin()).toBe(true);
  }
  const story = await telling;
  // A program whose start was lost does not stay.
  await waitFor('the end of every program', async () => {
    const { processes } = await client.call('process/list', {});
    return processes.every(({ exitCode }) => exitCode !== null);
  });
  await client.close();
  await proxy.close();
  return { story, log: proxy.log };
}

async function tell(process: ExecProcess): Promise<Story> {
  const text = { stdout: '', stderr: '', pty: '' };
  const seqs: number[] = [];
  let [exitCode, lost]: [number | null, number] = [null, 0];
  for await (const event of process.events()) {
    if (event.type === 'failed') throw event.error;
    if (event.type === 'lost') lost++;
    else seqs.push(event.seq);
    if (event.type === 'output') text[event.stream] += Buffer.from(event.bytes).toString();
    if (event.type === 'exited') exitCode = event.exitCode;
  }
  return { stdout: text.stdout, stderr: text.stderr, seqs, exitCode, lost };
}

function expectWhole(story: Story, what: string): void {
  const { seqs, ...rest } = story;
  expect(rest, what).toEqual({ stdout: STDOUT, stderr: STDERR, exitCode: 3, lost: 0 });
  expect(seqs, what).toEqual(Array.from(seqs, (_, index) => index + 1));
}

/** Plays every case, a few at a time. */
async function playAll(
  cases: readonly { readonly what: string; readonly judge: (message: Passing) => Fate }[],
  pipelined: boolean,
): Promise<void> {
  const queue = [...cases];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { what, judge } = next;
      const { story } = await play(judge, pipelined).catch((error: Error) => {
        throw new Error(`${what}: ${error.message}`, { cause: error });
      });
      expectWhole(story, what);
    }
  };
  await Promise.all(Array.from({ length: 6 }, worker));
}

const at =
  (connection: number, index: number, fate: Fate) =>
  (message: Passing): Fate =>
    message.connection === connection && message.index === index ? fate : 'pass';

describe.each([
  ['one after the other', false],
  ['all at once', true],
])('a session with writes %s', (_name, pipelined) => {
  let recorded: Passing[];
  beforeAll(async () => {
    const { story, log } = await play(() => 'pass', pipelined);
    expectWhole(story, 'undisturbed');
    recorded = log;
    expect(recorded.length).toBeGreaterThan(15);
  });

  /** One case per message of the recording that `choose` takes. */
  const each = (fate: Fate, choose: (message: Passing) => boolean = () => true) =>
    recorded.filter(choose).map(({ index, direction, text }) => ({
      what: `${fate} at ${index} (${direction} ${text.slice(0, 80)})`,
      judge: at(0, index, fate),
    }));
  /** One case per event, wherever it comes. */
  const eachEvent = (fate: Fate) =>
    recorded.filter(isEvent).map((_event, which) => {
      let seen = 0;
      return {
        what: `${fate} at event ${which}`,
        judge: (message: Passing): Fate => (isEvent(message) && seen++ === which ? fate : 'pass'),
      };
    });

  test('survives a cut in the place of every message', () => playAll(each('swallow'), pipelined));

  test('survives a cut behind every message', () => playAll(each('last'), pipelined));

  test('survives a second cut during every recovery', async () => {
    const cases = [0, 1, 2, 3, 4, 5, 6].flatMap((second) =>
      each('swallow').map(({ what, judge }) => ({
        what: `${what}, then at ${second} of the next connection`,
        judge: (message: Passing) => {
          const first = judge(message);
          return first === 'pass' ? at(1, second, 'swallow')(message) : first;
        },
      })),
    );
    await playAll(cases, pipelined);
  });

  test('survives a delay of every message', () => playAll(each(20), pipelined));

  test('survives that every message from the server comes twice', () =>
    playAll(
      each('twice', ({ direction }) => direction === 'toClient'),
      pipelined,
    ));

  test('survives that every event comes behind the next message', () =>
    playAll(eachEvent('swap'), pipelined));

  test('survives that any event is missing', () =>
    playAll([...eachEvent('drop'), { what: 'no end', judge: dropEnd }], pipelined));
});

function isEvent({ text }: Passing): boolean {
  return /^\{"method":"process\//.test(text);
}

function dropEnd({ text }: Passing): Fate {
  return text.startsWith('{"method":"process/closed"') ? 'drop' : 'pass';
}
