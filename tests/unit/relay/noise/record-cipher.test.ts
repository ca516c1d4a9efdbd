import { expect, test } from 'vitest';
import { MAX_SEQ, RECORD_BYTES } from '../../../../src/relay/limits.ts';
import { RecordCipher } from '../../../../src/relay/noise/record-cipher.ts';

const key = () => Buffer.alloc(32, 3);

test('overwrites the bytes of the key', () => {
  const bytes = key();
  new RecordCipher(bytes);
  expect(bytes).toEqual(Buffer.alloc(32));
});

test('rejects a record that is repeated, out of order, truncated or changed', () => {
  const [sender, receiver] = [new RecordCipher(key()), new RecordCipher(key())];
  const [first, second] = [sender.seal(Buffer.from('a')), sender.seal(Buffer.from('b'))];
  expect(receiver.open(first).toString()).toBe('a');
  expect(() => receiver.open(first)).toThrow('not authentic');
  expect(() => new RecordCipher(key()).open(second)).toThrow('not authentic');
  expect(() => new RecordCipher(key()).open(first.subarray(0, 16))).toThrow('not authentic');
  expect(() => new RecordCipher(key()).open(first.subarray(0, 15))).toThrow('too short');
});

test('rejects a record above the size limit', () => {
  const [sender, receiver] = [new RecordCipher(key()), new RecordCipher(key())];
  expect(receiver.open(sender.seal(Buffer.alloc(RECORD_BYTES))).length).toBe(RECORD_BYTES);
  expect(() => receiver.open(sender.seal(Buffer.alloc(RECORD_BYTES + 1)))).toThrow('too large');
});

test('fails before the sequence numbers wrap around', () => {
  const sender = new RecordCipher(key(), MAX_SEQ);
  sender.seal(Buffer.from('last'));
  expect(sender.nextSeq).toBe(2 ** 32 - 1);
  expect(() => sender.seal(Buffer.from('one more'))).toThrow('used all its sequence numbers');
});
