import { Transform } from 'node:stream';
import { MemberScanner } from './member-scanner.ts';

/** A message that was too long. */
interface LongMessage {
  /** The id of the request; null for what needs no answer, or has no id that can be read. */
  readonly id: string | number | null;
}

/**
 * Passes on whole lines, up to a limit. Of a longer one only the id is read, and it is reported when it ends. The transport of the SDK
 * copies all that it has for each chunk that it gets, which takes seconds for a message of some megabytes, and ends at a long one.
 */
export function messageLines(maxBytes: number, onLongMessage: (message: LongMessage) => void): Transform {
  let parts: Buffer[] = [];
  let bytes = 0;
  let long: MemberScanner | null = null;
  const add = (part: Buffer) => {
    bytes += part.length;
    if (long === null && bytes > maxBytes) {
      long = new MemberScanner();
      for (const earlier of parts) long.push(earlier);
      parts = [];
    }
    if (long === null) parts.push(part);
    else long.push(part);
  };
  const finish = (pass: (line: Buffer) => void) => {
    if (long === null) pass(Buffer.concat([...parts, NEWLINE]));
    else onLongMessage({ id: requestId(long) });
    parts = [];
    bytes = 0;
    long = null;
  };
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let from = 0;
      for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
        add(chunk.subarray(from, end));
        from = end + 1;
        finish((line) => this.push(line));
      }
      if (from < chunk.length) add(chunk.subarray(from));
      done();
    },
  });
}

const LF = 0x0a;
const NEWLINE = Buffer.from('\n');

/** Responses have an id too, and no method. They get no answer. */
function requestId({ members }: MemberScanner): LongMessage['id'] {
  if (!members.has('method')) return null;
  try {
    const id: unknown = JSON.parse(members.get('id') ?? 'null');
    return typeof id === 'string' || typeof id === 'number' ? id : null;
  } catch {
    return null;
  }
}
