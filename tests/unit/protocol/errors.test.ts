import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  internalError,
  invalidParams,
  invalidRequest,
  methodNotFound,
  printable,
  RpcError,
  sessionAttached,
} from '../../../src/protocol/errors.ts';
import { ANY_CHARACTER } from '../../support/any-character.ts';

test.each([
  [invalidRequest('x'), -32600],
  [methodNotFound('x'), -32601],
  [invalidParams('x'), -32602],
  [internalError('x'), -32603],
  [sessionAttached('x'), -32010],
])('%s has the documented code', (error, code) => {
  expect(error).toBeInstanceOf(RpcError);
  expect(error).toMatchObject({ code, data: undefined });
});

test('an unknown-method error shows the method without control characters', () => {
  expect(methodNotFound('a\n\u001b[2J\u009bb').message).toBe('exec-server does not implement `a??[2J?b`');
});

test.each([
  ['plain', 'plain'],
  ['é😀', 'é😀'],
  ['\u0000\u007f\u0085\u2028\u2029', '?????'],
  // Characters that reverse, isolate or hide text: bidi controls, joiners, fillers, tags.
  ['\u202efdp\u202c.exe', '?fdp?.exe'],
  ['\u061c\u200b\u200d\u200e\u2060\u2066\u2069\ufeff\u00ad\u3164\u{e0041}', '???????????'],
  ['x'.repeat(200), 'x'.repeat(200)],
  ['x'.repeat(201), `${'x'.repeat(200)}…`],
  [`${'x'.repeat(199)}😀`, `${'x'.repeat(199)}…`],
  [`${'x'.repeat(198)}😀`, `${'x'.repeat(198)}😀`],
])('prints %s as %s', (text, printed) => {
  expect(printable(text)).toBe(printed);
});

test('printed text is short, has no control or format characters and never splits a character', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: ANY_CHARACTER, maxLength: 60 }),
      fc.integer({ min: 1, max: 20 }),
      (text, max) => {
        const printed = printable(text, max);
        expect(printed.length).toBeLessThanOrEqual(max + 1);
        expect(printed).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
        expect(Buffer.from(printed).toString()).toBe(printed);
      },
    ),
    { numRuns: 1_000 },
  );
});
