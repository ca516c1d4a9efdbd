import { BINARY_TEXT_MAX_BYTES } from '../../dist/transport/limits.js';
import { deepJson } from './fixture.mjs';

const MIB = 1024 * 1024;
const LARGEST_MESSAGE = 64 * MIB - 1024;

/** A binary message whose JSON has this length, or claims to have it. */
function binary(text, bytes, claimed = Buffer.byteLength(text)) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(claimed);
  return Buffer.concat([length, Buffer.from(text), bytes]);
}

/** A request of the id 1 that may have bytes. */
function write(params) {
  return `{"id":1,"method":"fs/writeFile","params":{"path":"file:///nowhere/x","dataBase64":""${params}}}`;
}

/** Binary messages that attack the reader, the decoder or the handler. */
export const BINARY_MESSAGES = {
  'the most bytes': () => binary(write(''), Buffer.alloc(LARGEST_MESSAGE, 0xff)),
  'the most bytes for a method without any': () =>
    binary('{"id":1,"method":"environment/status"}', Buffer.alloc(LARGEST_MESSAGE, 0xff)),
  'the longest JSON': () =>
    binary(write(`,"a":"${'x'.repeat(BINARY_TEXT_MAX_BYTES - 200)}"`), Buffer.alloc(MIB, 0xff)),
  'the longest JSON, and it is not JSON': () =>
    binary('}'.repeat(BINARY_TEXT_MAX_BYTES), Buffer.alloc(MIB, 0xff)),
  'the longest JSON, and it is not UTF-8': () =>
    binary('', Buffer.alloc(BINARY_TEXT_MAX_BYTES, 0xff), BINARY_TEXT_MAX_BYTES),
  'a JSON that is far too long': () => binary('', Buffer.alloc(LARGEST_MESSAGE, ' '), LARGEST_MESSAGE - 4),
  'a JSON that claims to be longer than the message': () =>
    binary('', Buffer.alloc(MIB, ' '), BINARY_TEXT_MAX_BYTES),
  'a JSON that is far too deep': () => binary(write(`,"a":${deepJson(3 * MIB)}`), Buffer.alloc(MIB)),
  'no JSON': () => binary('', Buffer.alloc(LARGEST_MESSAGE)),
};
