import { expect, test } from 'vitest';
import { UnansweredRequests } from '../../../src/cli/unanswered-requests.ts';
import { encodeError, type RequestId } from '../../../src/protocol/envelope.ts';
import { invalidRequest } from '../../../src/protocol/errors.ts';

const TIMEOUT_MS = 2 ** 31 - 1;
/** An id as JSON. */
const id = (text: string) => text as unknown as RequestId;

test.each([
  ['a request', '{"id":1,"method":"environment/status"}', '{"id":1,"result":{}}'],
  ['a request in another order', '{"method":"x","params":{},"id":"a\\"b"}', '{"id":"a\\"b","result":null}'],
  ['a request that is refused', '{"id":1,"method":"x"}', encodeError(id('1'), invalidRequest('no'))],
  ['a text that is no request', 'nonsense', encodeError(id('null'), invalidRequest('no'))],
])('%s is unanswered until its answer comes', async (_what, sent, answer) => {
  const requests = new UnansweredRequests();
  requests.sent(sent);
  requests.received('{"method":"process/output","params":{"id":1,"result":{}}}');
  expect(requests.count).toBe(1);
  const answered = requests.allAnswered(TIMEOUT_MS);
  requests.received(answer);
  await answered;
  expect(requests.count).toBe(0);
});

test.each(['{"method":"initialized"}', '{"id":1,"result":{"decision":"allow"}}'])(
  '%s needs no answer',
  async (sent) => {
    const requests = new UnansweredRequests();
    requests.sent(sent);
    await requests.allAnswered(TIMEOUT_MS);
  },
);

test('a request that is not answered is left', async () => {
  const requests = new UnansweredRequests();
  requests.sent('{"id":1,"method":"process/wait"}');
  await requests.allAnswered(1);
  expect(requests.count).toBe(1);
});
