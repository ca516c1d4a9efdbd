import { beforeEach, describe, expect, test } from 'vitest';
import { FRAME_COST_BYTES, MAX_WAITING_CONTROL_FRAMES, TICK_BYTES } from '../../../../src/relay/limits.ts';
import { type FrameSource, OutgoingFrames } from '../../../../src/relay/stream/outgoing-frames.ts';
import { settle } from '../link-fixture.ts';
import { createPipePair, type MemoryPipe } from '../memory-pipe.ts';

let pipe: MemoryPipe;
let outgoing: OutgoingFrames;
let backlog: boolean[];

beforeEach(() => {
  [pipe] = createPipePair();
  backlog = [];
  outgoing = new OutgoingFrames((backlogged) => backlog.push(backlogged));
  outgoing.attach(pipe);
  pipe.open({ frame: () => {}, drained: () => outgoing.drained(), closed: () => {} });
});

const sentTexts = () => pipe.sent.map((frame) => Buffer.from(frame).toString());

/** A source of a given number of frames. */
function source(name: string, count: number, bytes = 1): FrameSource & { made: number } {
  const frames = { made: 0, nextFrame: () => (frames.made < count ? frame() : null) };
  const frame = () => {
    frames.made++;
    return Buffer.from(`${name}${'.'.repeat(bytes - 1)}`);
  };
  return frames;
}

test('streams alternate', async () => {
  pipe.setCongested(true);
  outgoing.wake(source('a', 4));
  outgoing.wake(source('b', 2));
  outgoing.wake(source('c', 3));
  pipe.setCongested(false);
  await settle();
  expect(sentTexts().join('')).toBe('aabcabcac');
});

test('sends control frames before records', async () => {
  pipe.setCongested(true);
  outgoing.wake(source('a', 3));
  outgoing.sendControl(Buffer.from('!'));
  pipe.setCongested(false);
  await settle();
  expect(sentTexts().join('')).toBe('a!aa');
});

describe('a large backlog', () => {
  test('is sent in several iterations of the event loop', async () => {
    const large = source('a', 200, 60_000);
    outgoing.wake(large);
    const perTurn = Math.ceil(TICK_BYTES / (60_000 + FRAME_COST_BYTES));
    expect(large.made).toBe(perTurn);
    outgoing.wake(large);
    expect(large.made).toBe(perTurn);
    for (let turn = 2; large.made < 200; turn++) {
      await settle(1);
      expect(large.made).toBeLessThanOrEqual(turn * perTurn);
    }
    expect(pipe.sent.length).toBe(200);
  });

  test('creates frames only when the pipe accepts them', async () => {
    const many = source('a', 10);
    pipe.setCongested(true);
    outgoing.wake(many);
    await settle();
    expect(many.made).toBe(1);
  });
});

test('reports a backlog of control frames until it is sent', async () => {
  pipe.setCongested(true);
  outgoing.wake(source('a', 1));
  for (let count = 1; count < MAX_WAITING_CONTROL_FRAMES; count++) outgoing.sendControl(Buffer.from('!'));
  expect(backlog).toEqual([]);
  outgoing.sendControl(Buffer.from('!'));
  expect(backlog).toEqual([true]);
  pipe.setCongested(false);
  await settle();
  expect(backlog).toEqual([true, false]);
});

test('sends queued control frames before it closes the pipe, even while sending', async () => {
  outgoing.wake({
    nextFrame: () => {
      outgoing.sendControl(Buffer.from('last'));
      outgoing.end();
      return null;
    },
  });
  await settle();
  expect(sentTexts()).toEqual(['last']);
  expect(pipe.closed).toBe(true);
  outgoing.sendControl(Buffer.from('dropped'));
  expect(sentTexts()).toEqual(['last']);
});

test('a new pipe receives later records, and no frames queued for the old pipe', async () => {
  const frames = source('a', 5);
  pipe.setCongested(true);
  outgoing.wake(frames);
  outgoing.sendControl(Buffer.from('!'));
  outgoing.detach();
  outgoing.wake(frames);
  await settle();
  expect(frames.made).toBe(1);
  const [next] = createPipePair();
  outgoing.attach(next);
  await settle();
  expect(next.sent.map((frame) => Buffer.from(frame).toString())).toEqual(['a', 'a', 'a', 'a']);
});
