import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ExecProcess, ProcessEvent } from '../../../../src/client/backend.ts';
import { OutputCollector } from '../../../../src/client/process/output-collector.ts';
import { collectGarbage } from '../../../support/kept-memory.ts';

const PIECE = 64 * 1024;

/** A process that has written so many pieces. What becomes of their memory is seen in `memory`. */
function writer(pieces: number, memory: WeakRef<ArrayBufferLike>[] = []): ExecProcess {
  async function* events(): AsyncGenerator<ProcessEvent> {
    for (let seq = 1; seq <= pieces; seq++) {
      const bytes = new Uint8Array(PIECE).fill(seq);
      memory.push(new WeakRef(bytes.buffer));
      yield { type: 'output', seq, stream: 'stdout', bytes };
    }
    yield { type: 'closed', seq: pieces + 1 };
  }
  return { events } as unknown as ExecProcess;
}

const state = { exited: true, exitCode: 0, closed: true, sandboxDenied: false, failure: null };
const times = { timedOut: false, wallTimeMs: 1 };

test('the first bytes are kept, the others are counted and cost nothing', async () => {
  const collector = new OutputCollector(PIECE + 1);
  const memory: WeakRef<ArrayBufferLike>[] = [];
  await collector.collect(writer(200, memory), new AbortController().signal);
  await nextTurn();
  collectGarbage();
  expect(memory.filter((piece) => piece.deref() !== undefined).length).toBeLessThan(10);
  const { stdout, omittedBytes } = collector.outcome(state, times);
  expect([stdout.length, stdout[0], stdout[PIECE]]).toEqual([PIECE + 1, 1, 2]);
  expect(omittedBytes).toBe(199 * PIECE - 1);
});

test.each([0, -1])('a budget of %d keeps nothing', async (budget) => {
  const collector = new OutputCollector(budget);
  await collector.collect(writer(2), new AbortController().signal);
  expect(collector.outcome(state, times)).toMatchObject({
    stdout: new Uint8Array(0),
    omittedBytes: 2 * PIECE,
  });
});
