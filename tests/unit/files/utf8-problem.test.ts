import { describe, expect, it } from 'vitest';
import { utf8Problem } from '../../../src/files/utf8-problem.ts';

describe('utf8Problem', () => {
  it.each(['', 'plain', 'é', '€ and 𝄞', '\ufeffmark', '\0'])('accepts %j', (text) => {
    expect(utf8Problem(Buffer.from(text))).toBeNull();
  });

  it.each([
    ['ff', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['6180', 'invalid utf-8 sequence of 1 bytes from index 1'],
    ['c0af', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['f5808080', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['c361', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['e08080', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['eda080', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['f0808080', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['f4908080', 'invalid utf-8 sequence of 1 bytes from index 0'],
    ['e28261', 'invalid utf-8 sequence of 2 bytes from index 0'],
    ['f09d8461', 'invalid utf-8 sequence of 3 bytes from index 0'],
    ['c3a9e282acf09d849eff', 'invalid utf-8 sequence of 1 bytes from index 9'],
    ['c3', 'incomplete utf-8 byte sequence from index 0'],
    ['61e282', 'incomplete utf-8 byte sequence from index 1'],
    ['f09d84', 'incomplete utf-8 byte sequence from index 0'],
  ])('reports for %s: %s', (hex, problem) => {
    expect(utf8Problem(Buffer.from(hex, 'hex'))).toBe(problem);
  });

  it('agrees with the system about every sequence of two bytes', () => {
    const decoder = new TextDecoder('utf-8', { fatal: true });
    for (let value = 0; value < 65_536; value++) {
      const bytes = Buffer.from([value >> 8, value & 0xff]);
      let valid = true;
      try {
        decoder.decode(bytes);
      } catch {
        valid = false;
      }
      if ((utf8Problem(bytes) === null) !== valid) expect.fail(bytes.toString('hex'));
    }
  });
});
