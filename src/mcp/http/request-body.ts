import type { IncomingMessage } from 'node:http';
import { ByteBudget } from '../../base/byte-budget.ts';
import { MAX_BODY_BYTES_IN_ALL, MAX_MESSAGE_BYTES } from '../limits.ts';

/** A request that is refused, with its HTTP status. */
export class RefusedRequest extends Error {
  override readonly name = 'RefusedRequest';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The body of a request as JSON. */
interface ParsedBody {
  readonly value: unknown;
  /** Must be called when the request has been answered. */
  release(): void;
}

/** Reads the bodies of requests, and limits how much memory they take together. */
export class RequestBodies {
  readonly #budget = new ByteBudget(MAX_BODY_BYTES_IN_ALL);

  /** Rejects with RefusedRequest for a body that is too large or is not JSON. */
  async read(request: IncomingMessage): Promise<ParsedBody> {
    const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
    if (type !== 'application/json') throw new RefusedRequest(415, 'the body must be application/json');
    if (Number(request.headers['content-length'] ?? 0) > MAX_MESSAGE_BYTES) throw tooLarge();
    const chunks: Buffer[] = [];
    let length = 0;
    const release = () => {
      this.#budget.remove(length);
      length = 0;
    };
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        length += chunk.length;
        this.#budget.add(chunk.length);
        if (length > MAX_MESSAGE_BYTES) throw tooLarge();
        if (this.#budget.exceeded) {
          throw new RefusedRequest(503, 'the server handles too many large requests; try again later');
        }
        chunks.push(chunk);
      }
      return { value: parse(Buffer.concat(chunks)), release };
    } catch (error) {
      release();
      throw error;
    }
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(UTF8.decode(body));
  } catch {
    throw new RefusedRequest(400, 'the body is not JSON');
  }
}

function tooLarge(): RefusedRequest {
  return new RefusedRequest(413, `the body is larger than ${MAX_MESSAGE_BYTES} bytes`);
}
