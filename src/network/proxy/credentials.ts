import { randomBytes, timingSafeEqual } from 'node:crypto';

/** What a program proves with that a proxy is its own. It reaches the program in the URLs of its environment. */
export class Credentials {
  readonly user = 'exec';
  readonly password = randomBytes(16).toString('hex');

  /** `user:password@`, for a URL. */
  get userinfo(): string {
    return `${this.user}:${this.password}@`;
  }

  /** Whether these are the ones, in a time that does not tell how much of them is right. */
  match(user: string, password: string): boolean {
    const given = Buffer.from(`${user}:${password}`);
    const wanted = Buffer.from(`${this.user}:${this.password}`);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  /** Whether a `Proxy-Authorization` header holds them. */
  matchHeader(header: string | undefined): boolean {
    const [, encoded] = /^basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? '') ?? [];
    const [, user, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
    return user !== undefined && password !== undefined && this.match(user, password);
  }
}
