import type { Readable } from 'node:stream';
import { LineSplitter } from '../../base/line-splitter.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { FIRST_CREDENTIAL_TIMEOUT_MS, MAX_CREDENTIAL_LINE_BYTES } from '../limits.ts';
import { type AuthHeaders, CredentialError, checkedToken, type RegistryAuth } from '../registry-auth.ts';
import { RegistryError } from '../registry-client.ts';
import { revealsSecret } from '../secrets.ts';

/**
 * Reads credentials as lines of JSON while the executor runs. Each line replaces the previous credential. Without a new line in time
 * the credential expires and the registry refuses it. The end of the input ends the executor.
 */
export class CredentialFrames implements RegistryAuth {
  /** Resolves at the first credential. Rejects with CredentialError when it is invalid or does not arrive in time. */
  readonly ready: Promise<void>;
  /** Resolves at the end of the input. Rejects with CredentialError at an invalid line. */
  readonly ended: Promise<void>;
  readonly #environmentId: string;
  readonly #now: () => number;
  #token = '';
  #expiresAtMs = 0;

  /** Tests pass a clock and a shorter time for the first credential. */
  constructor(
    input: Readable,
    environmentId: string,
    { now = Date.now, firstMs = FIRST_CREDENTIAL_TIMEOUT_MS }: FrameTimes = {},
  ) {
    this.#environmentId = environmentId;
    this.#now = now;
    let first: () => void = () => {};
    const arrived = new Promise<void>((resolve) => {
      first = resolve;
    });
    this.ended = this.#read(input, () => first());
    this.ended.catch(() => {});
    const endedFirst = this.ended.then(() => {
      throw new CredentialError('stdin ended before a credential arrived');
    });
    this.ready = withTimeout(Promise.race([arrived, endedFirst]), firstMs, {
      onTimeout: () => {
        throw new CredentialError(`no credential arrived on stdin within ${firstMs / 1_000} s`);
      },
    });
    this.ready.catch(() => {});
  }

  headers(): AuthHeaders {
    if (this.#now() >= this.#expiresAtMs) {
      throw new RegistryError('the credential has expired and no new one arrived on stdin', {
        retryable: true,
      });
    }
    return { authorization: `Bearer ${this.#token}` };
  }

  revealedIn(text: string): boolean {
    return revealsSecret(text, [this.#token]);
  }

  async #read(input: Readable, arrived: () => void): Promise<void> {
    const lines = new LineSplitter(MAX_CREDENTIAL_LINE_BYTES - LINE_FEED_BYTES);
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
    const text = line.toString();
    let frame: Readonly<Record<string, unknown>>;
    try {
      frame = JSON.parse(text);
    } catch {
      throw invalid('it is not JSON');
    }
    if (typeof frame !== 'object' || frame === null || Object.keys(frame).sort().join() !== FIELDS) {
      throw invalid(`it must have exactly ${FIELDS.replaceAll(',', ', ')}`);
    }
    // JSON.parse accepts a repeated field, and reads 1.0 as 1.
    if (!FOUR_MEMBERS.test(text)) throw invalid('it must have four members, strings or whole numbers');
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

/** The clock and the time limit of the first credential. */
interface FrameTimes {
  readonly now?: () => number;
  readonly firstMs?: number;
}

const LINE_FEED_BYTES = 1;

/** Matches JSON of an object with four members that are strings or whole numbers from 0. */
const FOUR_MEMBERS = /^\s*\{(?:\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|\d+)\s*(?:,|(?=\}))){4}\}\s*$/;

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
