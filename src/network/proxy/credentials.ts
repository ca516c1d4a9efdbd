import { randomBytes, timingSafeEqual } from 'node:crypto';

/** Proves that a connection comes from the proxy's own program, which gets them in the URLs of its environment. */
export class Credentials {
  readonly user = 'exec';
  readonly password = randomBytes(16).toString('hex');

  /** `user:password@`, for a URL. */
  get userinfo(): string {
    return `${this.user}:${this.password}@`;
  }

  /** Whether the credentials are right. Takes the same time however much of them is right. */
  match(user: string, password: string): boolean {
    const given = Buffer.from(`${user}:${password}`);
    const wanted = Buffer.from(`${this.user}:${this.password}`);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  /** Whether a `Proxy-Authorization` header contains the credentials. */
  matchHeader(header: string | undefined): boolean {
    const [, encoded] = /^basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? '') ?? [];
    const [, user, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? [];
    return user !== undefined && password !== undefined && this.match(user, password);
  }
}
