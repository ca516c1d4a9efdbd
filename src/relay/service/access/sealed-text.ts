import { createHmac, timingSafeEqual } from 'node:crypto';

/** The purpose of a sealed text. It is not valid for any other purpose. */
type SealPurpose = 'token' | 'ticket';

/** Signs claims with an HMAC and verifies them. The claims are readable: the seal provides authenticity, not secrecy. */
export class Seal {
  readonly #keys: Readonly<Record<SealPurpose, Buffer>>;

  constructor(secret: string) {
    const keyFor = (purpose: SealPurpose) => mac(Buffer.from(secret), `exec-server relay ${purpose} v1`);
    this.#keys = { token: keyFor('token'), ticket: keyFor('ticket') };
  }

  write(purpose: SealPurpose, claims: Readonly<Record<string, unknown>>): string {
    const content = Buffer.from(JSON.stringify(claims)).toString('base64url');
    return `${content}.${mac(this.#keys[purpose], content).toString('base64url')}`;
  }

  /** Returns the claims of a text, or null when the seal is wrong. Verifies the seal before it parses the claims. */
  read(purpose: SealPurpose, text: string): Readonly<Record<string, unknown>> | null {
    const [content, seal, ...more] = text.split('.');
    if (content === undefined || seal === undefined || more.length > 0) return null;
    const given = Buffer.from(seal, 'base64url');
    const expected = mac(this.#keys[purpose], content);
    // Base64 decoding is lenient. Only the canonical form is valid, so that each seal has exactly one spelling.
    if (given.toString('base64url') !== seal || given.length !== expected.length) return null;
    if (!timingSafeEqual(given, expected)) return null;
    return JSON.parse(Buffer.from(content, 'base64url').toString());
  }
}

function mac(key: Buffer, content: string): Buffer {
  return createHmac('sha256', key).update(content).digest();
}
