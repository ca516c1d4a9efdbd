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

/** A disturbance of one message. */
interface Case {
  readonly what: string;
  readonly judge: (message: Passing) => Fate;
}

/** Plays every case, a few at a time. At least `least` of them must have met the message that they disturb. */
async function playAll(cases: readonly Case[], pipelined: boolean, least: number): Promise<void> {
  const queue = [...cases];
  let met = 0;
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { what, judge } = next;
      let disturbed = false;
      const watched = (message: Passing) => {
        const fate = judge(message);
        disturbed ||= fate !== 'pass';
        return fate;
      };
      const { story } = await play(watched, pipelined).catch((error: Error) => {
        throw new Error(`${what}: ${error.message}`, { cause: error });
      });
      expectWhole(story, what);
      if (disturbed) met++;
    }
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  expect(met).toBeGreaterThanOrEqual(least);
}

/** Requests of a session: the handshake has two messages, then come start, writes and the end of stdin. */
const TO_SERVER = 2 + 1 + LINES.length + 1;
/** Events that there are however the output is cut into pieces: each stream once, the exit and the end. */
const LEAST_EVENTS = 4;
/** Answers to all but `initialized`, and events. */
const LEAST_TO_CLIENT = TO_SERVER - 1 + LEAST_EVENTS;

describe.each([
  ['one after the other', false],
  ['all at once', true],
])('a session with writes %s', (_name, pipelined) => {
  let recorded: Passing[];
  beforeAll(async () => {
    const { story, log } = await play(() => 'pass', pipelined);
    expectWhole(story, 'undisturbed');
    // What follows is the test's own question.
    recorded = log.slice(
      0,
      log.findIndex(({ text }) => text.includes('"process/list"')),
    );
    expect(recorded.filter(toServer)).toHaveLength(TO_SERVER);
    expect(recorded.filter(toClient).length).toBeGreaterThanOrEqual(LEAST_TO_CLIENT);
  });

  /** One case per message of the recording that `choose` takes. */
  const each = (fate: Fate, choose: (message: Passing) => boolean = () => true): Case[] =>
    recorded.filter(choose).map(({ direction, place, text }) => ({
      what: `${fate} at ${direction} ${place} (${text.slice(0, 80)})`,
      judge: (message) =>
        message.connection === 0 && message.direction === direction && message.place === place
          ? fate
          : 'pass',
    }));
  /** One case per event, wherever it comes. */
  const eachEvent = (fate: Fate): Case[] =>
    recorded.filter(isEvent).map((_event, which) => {
      let seen = 0;
      return {
        what: `${fate} at event ${which}`,
        judge: (message) => (isEvent(message) && seen++ === which ? fate : 'pass'),
      };
    });

  test('survives a cut in the place of every message', () =>
    playAll(each('swallow'), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  test('survives a cut behind every message', () =>
    playAll(each('last'), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  test('survives a second cut during every recovery', async () => {
    const cases = [0, 1, 2, 3, 4, 5, 6].flatMap((second) =>
      each('swallow').map(({ what, judge }): Case => {
        const again = (message: Passing): Fate =>
          message.connection === 1 && message.index === second ? 'swallow' : 'pass';
        return {
          what: `${what}, then at ${second} of the next connection`,
          judge: (message) => (message.connection === 0 ? judge(message) : again(message)),
        };
      }),
    );
    await playAll(cases, pipelined, 7 * (TO_SERVER + LEAST_TO_CLIENT));
  });

  test('survives a delay of every message', () => playAll(each(20), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  // All but the start: the second one is refused, perhaps before the first is answered, and nothing tells the answers apart.
  test('survives that every message comes twice', () =>
    playAll(
      each('twice', ({ text }) => !text.includes('"process/start"')),
      pipelined,
      TO_SERVER - 1 + LEAST_TO_CLIENT,
    ));

  // Requests keep their order: it is the only one that the bytes of stdin have.
  test('survives that every message from the server comes behind the next', () =>
    playAll(each('swap', toClient), pipelined, LEAST_TO_CLIENT));

  test('survives that any event is missing', () =>
    playAll([...eachEvent('drop'), { what: 'no end', judge: dropEnd }], pipelined, LEAST_EVENTS + 1));
});

function toServer({ direction }: Passing): boolean {
  return direction === 'toServer';
}

function toClient({ direction }: Passing): boolean {
  return direction === 'toClient';
}

function isEvent({ text }: Passing): boolean {
  return /^\{"method":"process\//.test(text);
}

function dropEnd({ text }: Passing): Fate {
  return text.startsWith('{"method":"process/closed"') ? 'drop' : 'pass';
}
