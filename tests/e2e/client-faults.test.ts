import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecProcess } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { ClientError } from '../../src/client/errors.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { type MessageAction, MessageProxy, type PassingMessage } from '../support/message-proxy.ts';
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

/** What the consumer of a session received, in order. */
interface Recording {
  readonly stdout: string;
  readonly stderr: string;
  readonly seqs: readonly number[];
  readonly exitCode: number | null;
  readonly lost: number;
}

/** Connects and starts the program. Retries errors that are retryable, like a caller. */
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

/** Runs one session through a proxy. */
async function runSession(
  decide: (message: PassingMessage) => MessageAction,
  pipelined: boolean,
): Promise<{ recording: Recording; log: PassingMessage[] }> {
  const proxy = await MessageProxy.open(server.url, decide);
  const { client, process } = await begin(proxy.url);
  const telling = record(process);
  const inputs = LINES.map((line) => () => process.write(`${line}\n`));
  if (pipelined) {
    const closing = Promise.all([...inputs.map((write) => write()), process.closeStdin()]);
    expect((await closing).at(-1)).toBe(true);
  } else {
    for (const write of inputs) await write();
    expect(await process.closeStdin()).toBe(true);
  }
  const recording = await telling;
  // A program whose start was lost must not stay behind.
  await waitFor('the end of every program', async () => {
    const { processes } = await client.call('process/list', {});
    return processes.every(({ exitCode }) => exitCode !== null);
  });
  await client.close();
  await proxy.close();
  return { recording, log: proxy.log };
}

async function record(process: ExecProcess): Promise<Recording> {
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

function expectWhole(recording: Recording, what: string): void {
  const { seqs, ...rest } = recording;
  expect(rest, what).toEqual({ stdout: STDOUT, stderr: STDERR, exitCode: 3, lost: 0 });
  expect(seqs, what).toEqual(Array.from(seqs, (_, index) => index + 1));
}

/** A fault at one message. */
interface Case {
  readonly what: string;
  readonly decide: (message: PassingMessage) => MessageAction;
}

/**
 * Runs every case, a few concurrently. At least `least` of them must have reached the message that they disturb.
 */
async function runAll(cases: readonly Case[], pipelined: boolean, least: number): Promise<void> {
  const queue = [...cases];
  let met = 0;
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { what, decide } = next;
      let disturbed = false;
      const watched = (message: PassingMessage) => {
        const action = decide(message);
        disturbed ||= action !== 'pass';
        return action;
      };
      const { recording } = await runSession(watched, pipelined).catch((error: Error) => {
        throw new Error(`${what}: ${error.message}`, { cause: error });
      });
      expectWhole(recording, what);
      if (disturbed) met++;
    }
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  expect(met).toBeGreaterThanOrEqual(least);
}

/** Requests of a session: two messages of the handshake, then the start, the writes and the end of stdin. */
const TO_SERVER = 2 + 1 + LINES.length + 1;
/** The minimum number of events, for any chunking of the output: one per stream, the exit and the end. */
const LEAST_EVENTS = 4;
/** Responses to all requests but `initialized`, and events. */
const LEAST_TO_CLIENT = TO_SERVER - 1 + LEAST_EVENTS;

describe.each([
  ['one after the other', false],
  ['all at once', true],
])('a session with writes %s', (_name, pipelined) => {
  let recorded: PassingMessage[];
  beforeAll(async () => {
    const { recording, log } = await runSession(() => 'pass', pipelined);
    expectWhole(recording, 'undisturbed');
    // The rest are requests of the test itself.
    recorded = log.slice(
      0,
      log.findIndex(({ text }) => text.includes('"process/list"')),
    );
    expect(recorded.filter(toServer)).toHaveLength(TO_SERVER);
    expect(recorded.filter(toClient).length).toBeGreaterThanOrEqual(LEAST_TO_CLIENT);
  });

  /** One case per recorded message that `choose` selects. */
  const each = (action: MessageAction, choose: (message: PassingMessage) => boolean = () => true): Case[] =>
    recorded.filter(choose).map(({ direction, place, text }) => ({
      what: `${action} at ${direction} ${place} (${text.slice(0, 80)})`,
      decide: (message) =>
        message.connection === 0 && message.direction === direction && message.place === place
          ? action
          : 'pass',
    }));
  /** One case per event, at any position. */
  const eachEvent = (action: MessageAction): Case[] =>
    recorded.filter(isEvent).map((_event, which) => {
      let seen = 0;
      return {
        what: `${action} at event ${which}`,
        decide: (message) => (isEvent(message) && seen++ === which ? action : 'pass'),
      };
    });

  test('survives a cut instead of every message', () =>
    runAll(each('swallow'), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  test('survives a cut after every message', () =>
    runAll(each('last'), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  test('survives a second cut during every recovery', async () => {
    const cases = [0, 1, 2, 3, 4, 5, 6].flatMap((second) =>
      each('swallow').map(({ what, decide }): Case => {
        const again = (message: PassingMessage): MessageAction =>
          message.connection === 1 && message.index === second ? 'swallow' : 'pass';
        return {
          what: `${what}, then at ${second} of the next connection`,
          decide: (message) => (message.connection === 0 ? decide(message) : again(message)),
        };
      }),
    );
    await runAll(cases, pipelined, 7 * (TO_SERVER + LEAST_TO_CLIENT));
  });

  test('survives a delay of every message', () => runAll(each(20), pipelined, TO_SERVER + LEAST_TO_CLIENT));

  // All but the start: the server refuses the second one, perhaps before it answers the first, and the client
  // cannot distinguish the responses.
  test('survives the duplication of every message', () =>
    runAll(
      each('twice', ({ text }) => !text.includes('"process/start"')),
      pipelined,
      TO_SERVER - 1 + LEAST_TO_CLIENT,
    ));

  // Requests keep their order, because the bytes of stdin have no other.
  test('survives swapping every message from the server with the next', () =>
    runAll(each('swap', toClient), pipelined, LEAST_TO_CLIENT));

  test('survives the loss of any event', () =>
    runAll([...eachEvent('drop'), { what: 'no end', decide: dropEnd }], pipelined, LEAST_EVENTS + 1));
});

function toServer({ direction }: PassingMessage): boolean {
  return direction === 'toServer';
}

function toClient({ direction }: PassingMessage): boolean {
  return direction === 'toClient';
}

function isEvent({ text }: PassingMessage): boolean {
  return /^\{"method":"process\//.test(text);
}

function dropEnd({ text }: PassingMessage): MessageAction {
  return text.startsWith('{"method":"process/closed"') ? 'drop' : 'pass';
}
