import type { Screen } from '../../process/screen/screen-tracker.ts';
import { limitExceeded } from '../../protocol/errors.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { SNAPSHOT_ENVELOPE_BYTES } from '../limits.ts';

/** The answer to `process/screen`. Throws RpcError when it does not fit into a message. */
export function screenResult(screen: Screen, maxResultBytes: number): ResultOf<'process/screen'> {
  const { seq, size, redraw, text, cursor, alternate, title, exact } = screen;
  const encoded = redraw.toString('base64');
  const textBytes = Buffer.byteLength(JSON.stringify([text, title]));
  if (encoded.length + textBytes > maxResultBytes - SNAPSHOT_ENVELOPE_BYTES) {
    throw limitExceeded(
      `the screen of ${size.rows} rows and ${size.cols} columns does not fit into a message; resize the terminal`,
    );
  }
  const { rows, cols } = size;
  return { seq, rows, cols, redraw: encoded, text, cursor, alternate, title, exact };
}
