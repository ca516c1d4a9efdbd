import { expect, test } from 'vitest';
import { Player } from '../../../../src/cli/recordings/player.ts';
import type { CastEvent } from '../../../../src/recording/asciicast.ts';

const output = (atMs: number, text: string): CastEvent => ({ atUs: atMs * 1_000, code: 'o', text });

async function* recorded(...events: CastEvent[]): AsyncGenerator<CastEvent> {
  yield* events;
}

/** A player and what it has shown. */
function player({ speed = 1, idleLimitMs = Number.POSITIVE_INFINITY } = {}) {
  const shown: string[] = [];
  const write = async (text: string) => void shown.push(text);
  return { shown, player: new Player({ speed, idleLimitMs, write }) };
}

test('shows the output only, in order', async () => {
  const { player: it, shown } = player();
  const marker: CastEvent = { atUs: 5, code: 'm', text: 'mark' };
  await it.play(recorded(output(0, 'a'), marker, output(1, 'b'), { atUs: 9, code: 'x', text: '0' }));
  expect(shown).toEqual(['a', 'b']);
});

test('shortens pauses by the speed and the limit', async () => {
  const day = 86_400_000;
  for (const options of [{ speed: 1e9 }, { idleLimitMs: 1 }]) {
    const { player: it, shown } = player(options);
    await it.play(recorded(output(day, 'a'), output(2 * day, 'b')));
    expect(shown).toEqual(['a', 'b']);
  }
});

test('pauses, steps and continues', async () => {
  const { player: it, shown } = player();
  it.keys('. ');
  const playing = it.play(
    recorded(output(0, 'a'), output(60_000, 'b'), output(60_000, 'c'), output(60_000, 'd')),
  );
  await new Promise(setImmediate);
  expect(shown).toEqual([]);
  it.keys('.');
  await expect.poll(() => shown).toEqual(['a']);
  // Answers of the terminal are no keys.
  it.keys('\x1b[?1;2.q');
  it.keys('..');
  await expect.poll(() => shown).toEqual(['a', 'b', 'c']);
  it.keys(' ');
  await playing;
  expect(shown).toEqual(['a', 'b', 'c', 'd']);
});

test.each(['q', '\x03'])('ends with %j, also while it pauses', async (key) => {
  for (const before of ['', ' ']) {
    const { player: it, shown } = player();
    const playing = it.play(recorded(output(0, 'a'), output(60_000, 'b')));
    if (before === '') await expect.poll(() => shown).toEqual(['a']);
    it.keys(before + key);
    await playing;
    expect(shown).not.toContain('b');
  }
});
