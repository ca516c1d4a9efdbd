import { expect, test, vi } from 'vitest';
import { limitingRewrite } from '../../../src/cli/console/connection-limits.ts';
import { joinTransports } from '../../../src/cli/join-transports.ts';
import { createMemoryPair, type MemoryTransport } from '../../../src/transport/memory.ts';
import type { CloseReason } from '../../../src/transport/transport.ts';

/** What arrives at an end of a line. */
function arriving(end: MemoryTransport) {
  const messages: unknown[] = [];
  const closed = new Promise<CloseReason>((resolve) => {
    end.open({
      message: (text) => void messages.push(text),
      bytesMessage: ({ text, bytes }) => void messages.push([text, Buffer.from(bytes).toString()]),
      undecodable: () => {},
      drained: () => {},
      ended: () => {},
      closed: resolve,
    });
  });
  return { messages, closed };
}

function joined(carriesBytes: boolean, rewrite?: (text: string) => string) {
  const [page, first] = createMemoryPair({ carriesBytes });
  const [second, server] = createMemoryPair({ carriesBytes });
  const [atPage, atServer] = [arriving(page), arriving(server)];
  const ended = joinTransports(first, second, rewrite && { rewrite });
  return { page, server, atPage, atServer, ended };
}

test('passes text and bytes in both directions, and the end of one side to the other', async () => {
  const { page, server, atPage, atServer, ended } = joined(true);
  page.send('question');
  page.sendBytes!({ text: '{}', bytes: Buffer.from('bytes') });
  server.send('answer');
  await vi.waitFor(() => expect(atPage.messages).toHaveLength(1));
  page.close({ code: 4401, reason: 'signed out' });
  expect(await atServer.closed).toMatchObject({ code: 4401, reason: 'signed out' });
  await ended;
  expect([atServer.messages, atPage.messages]).toEqual([['question', ['{}', 'bytes']], ['answer']]);
});

test('a lost connection ends the other side with a code that can be sent', async () => {
  const { server, atPage, ended } = joined(false);
  server.close({ code: 1006, reason: '' });
  expect(await atPage.closed).toMatchObject({
    code: 1013,
    reason: 'the connection of the other side was lost',
  });
  await ended;
});

test('rewrites the messages of the first side only, also those with bytes, and closes when it cannot', async () => {
  const readOnly = limitingRewrite({ readOnly: true, textOnly: false });
  const { page, server, atPage, atServer } = joined(true, readOnly);
  const hidden = '{"method":"x","\\u006dethod":"\\u0069nitialize"}';
  const written = '{"method":"initialize","params":{"capabilities":{"readOnly":true}}}';
  page.send(hidden);
  page.sendBytes!({ text: hidden, bytes: Buffer.from('bytes') });
  server.send(hidden);
  await vi.waitFor(() => expect(atPage.messages).toHaveLength(1));
  page.send('[]');
  expect(await atPage.closed).toMatchObject({ code: 1008, reason: 'expected one JSON-RPC object' });
  expect([atServer.messages, atPage.messages]).toEqual([[written, [written, 'bytes']], [hidden]]);
});

test.each([
  [{ readOnly: false, textOnly: false }, { binaryMessages: true }],
  [{ readOnly: false, textOnly: true }, { binaryMessages: false }],
  [
    { readOnly: true, textOnly: false },
    { binaryMessages: true, readOnly: true },
  ],
])('with the limits %j the capabilities of a page are %j', (limits, capabilities) => {
  const rewrite = limitingRewrite(limits);
  const initialize = (members: object) =>
    JSON.stringify({ id: 1, method: 'initialize', params: { clientName: 'x', capabilities: members } });
  expect(JSON.parse(rewrite(initialize({ binaryMessages: true })))).toEqual(
    JSON.parse(initialize(capabilities)),
  );
  expect(rewrite('{"id":2,"method":"fs/list"}')).toBe('{"id":2,"method":"fs/list"}');
});
