import type { Readable } from 'node:stream';
import { LineSplitter } from '../../base/line-splitter.ts';
import { MAX_CREDENTIAL_LINE_BYTES } from '../limits.ts';
import { checkedToken, type RegistryAuth } from '../registry-auth.ts';
import { RegistryError } from '../registry-client.ts';

/** A line is not a valid credential. The message does not contain the line. */
export class CredentialError extends Error {
  override readonly name = 'CredentialError';
}

/**
 * Reads credentials as lines of JSON while the executor runs. Each line replaces the previous credential. Without a new line in time
 * the credential expires and the registry refuses it. The end of the input ends the executor.
 */
export class CredentialFrames implements RegistryAuth {
  /** Resolves with true at the first credential, or with false when the input ends first. Rejects with CredentialError. */
  readonly ready: Promise<boolean>;
  /** Resolves at the end of the input. Rejects with CredentialError at an invalid line. */
  readonly ended: Promise<void>;
  readonly #environmentId: string;
  readonly #now: () => number;
  #token = '';
  #expiresAtMs = 0;

  constructor(input: Readable, environmentId: string, now: () => number = Date.now) {
    this.#environmentId = environmentId;
    this.#now = now;
    let first: (hasOne: boolean) => void = () => {};
    const arrived = new Promise<boolean>((resolve) => {
      first = resolve;
    });
    this.ended = this.#read(input, () => first(true));
    this.ended.catch(() => {});
    this.ready = Promise.race([arrived, this.ended.then(() => false)]);
    this.ready.catch(() => {});
  }

  headers(): Readonly<Record<string, string>> {
    if (this.#now() >= this.#expiresAtMs) {
      throw new RegistryError('the credential has expired and no new one arrived on stdin', {
        retryable: true,
      });
    }
    return { authorization: `Bearer ${this.#token}` };
  }

  revealedIn(text: string): boolean {
    return text.includes(this.#token);
  }

  async #read(input: Readable, arrived: () => void): Promise<void> {
    const lines = new LineSplitter(MAX_CREDENTIAL_LINE_BYTES);
    try {
      for await (const part of input as AsyncIterable<Buffer>) {
        for (const line of lines.push(part)) {
          this.#take(line);
          arrived();
        }
      }
    } catch (error) {
      if (error instanceof CredentialError) throw error;
      throw new CredentialError(`cannot read credentials from stdin: ${(error as Error).message}`);
    }
    if (lines.rest().length > 0) throw invalid('it does not end with a line feed');
  }

  #take(line: Buffer): void {
    let frame: Readonly<Record<string, unknown>>;
    try {
      frame = JSON.parse(line.toString());
    } catch {
      throw invalid('it is not JSON');
    }
    if (typeof frame !== 'object' || frame === null || Object.keys(frame).sort().join() !== FIELDS) {
      throw invalid(`it must have exactly ${FIELDS.replaceAll(',', ', ')}`);
    }
    const { version, environment_id: environmentId, token, expires_at: expiresAt } = frame;
    if (version !== 1) throw invalid('its version is not 1');
    if (environmentId !== this.#environmentId) throw invalid('it is for another environment');
    if (typeof token !== 'string') throw invalid('its token is not a string');
    if (!Number.isSafeInteger(expiresAt))
      throw invalid('expires_at is not a whole number of seconds since 1970');
    const expiresAtMs = (expiresAt as number) * 1_000;
    if (expiresAtMs <= this.#now()) throw invalid('it has expired');
    this.#token = tokenOf(token);
    this.#expiresAtMs = expiresAtMs;
  }
}

const FIELDS = 'environment_id,expires_at,token,version';

function tokenOf(text: string): string {
  try {
    return checkedToken(text);
  } catch (error) {
    throw invalid((error as Error).message);
  }
}

function invalid(what: string): CredentialError {
  return new CredentialError(`invalid credential on stdin: ${what}`);
}
