import { expect, test } from 'vitest';
import { messageLines } from '../../../src/mcp/message-lines.ts';

const LIMIT = 64;
const FILL = 'x'.repeat(LIMIT);

/** Sends text in chunks of some bytes. */
async function send(text: string, chunkBytes: number) {
  const long: unknown[] = [];
  const lines = messageLines(LIMIT, ({ id }) => long.push(id));
  const bytes = Buffer.from(text);
  for (let from = 0; from < bytes.length; from += chunkBytes)
    lines.write(bytes.subarray(from, from + chunkBytes));
  lines.end();
  return { passed: Buffer.concat(await lines.toArray()).toString(), long };
}

test.each([1, 7, 10_000])('long messages are left out and reported, in chunks of %i bytes', async (size) => {
  const fits = `"${'y'.repeat(LIMIT - 2)}"`;
  expect(await send(`1\n${fits}\n{"method":"a","id":5,"b":"${FILL}"}\r\n2\n`, size)).toEqual({
    passed: `1\n${fits}\n2\n`,
    long: [5],
  });
});

test.each([
  [{ method: 'a', params: { id: 1, text: `\\"id":2,${FILL}` }, jsonrpc: '2.0', id: 'last' }, 'last'],
  [{ id: 3, params: [{ id: 1 }, FILL], method: 'a' }, 3],
  [{ method: 'a', params: { id: 1, FILL } }, null],
  [{ id: 4, result: FILL }, null],
  [{ id: 'x'.repeat(2_000), method: 'a' }, null],
  [{ id: { id: 1 }, method: FILL }, null],
  [FILL, null],
])('the id of %j is %j', async (message, id) => {
  expect((await send(`${JSON.stringify(message)}${' '.repeat(LIMIT)}\n`, 16)).long).toEqual([id]);
});

test('text that is not JSON has no id', async () => {
  for (const text of ['}}}]"', '{"id":1 "method":"a"', '{"id":,"method":"', ':,:,{{'])
    expect((await send(`${text}${FILL}\n`, 5)).long).toEqual([null]);
});
