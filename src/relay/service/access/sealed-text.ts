import { createHmac, timingSafeEqual } from 'node:crypto';

/** What a sealed text is for. One that was made for one purpose is worthless for any other. */
export type SealPurpose = 'token' | 'ticket';

/** Makes and reads texts that only who knows the secret can make. They hide nothing: they prove who wrote them. */
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

  /** The claims of a text; null when it was not made here. Nothing of it is looked at before its seal is found right. */
  read(purpose: SealPurpose, text: string): Readonly<Record<string, unknown>> | null {
    const [content, seal, ...more] = text.split('.');
    if (content === undefined || seal === undefined || more.length > 0) return null;
    const given = Buffer.from(seal, 'base64url');
    const expected = mac(this.#keys[purpose], content);
    // Decoding forgives; a text with several spellings would be several texts to whoever remembers them.
    if (given.toString('base64url') !== seal || given.length !== expected.length) return null;
    if (!timingSafeEqual(given, expected)) return null;
    return JSON.parse(Buffer.from(content, 'base64url').toString());
  }
}

function mac(key: Buffer, content: string): Buffer {
  return createHmac('sha256', key).update(content).digest();
}
