import type { ExecProcess, LostEvent, OutputStream } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { STREAMS } from './stream-positions.ts';

/** A chunk of output as bytes. */
export interface OutputBytes {
  readonly stream: OutputStream;
  readonly bytes: Uint8Array;
}

/** A chunk of output as text, or a marker line in place of lost output. */
export interface OutputText {
  readonly stream: OutputStream;
  readonly text: string;
  /** Present when the text is a marker line. */
  readonly lost?: LostEvent;
}

export interface OutputOptions {
  readonly signal?: AbortSignal;
  /** Called for output that is lost. The output then continues without an error or a marker line. */
  readonly onLost?: (lost: LostEvent) => void;
}

/**
 * Iterates over the output of a process, in order. Throws when output is lost, unless there is `onLost`, and when the
 * process can no longer be followed. Ends early after `process.detach()`.
 */
export async function* outputOf(
  process: ExecProcess,
  options: OutputOptions = {},
): AsyncGenerator<OutputBytes, void> {
  const { signal, onLost = throwLost } = options;
  for await (const event of process.events(signal && { signal })) {
    if (event.type === 'output') yield { stream: event.stream, bytes: event.bytes };
    else if (event.type === 'screen') yield { stream: 'pty', bytes: event.screen.redraw };
    else if (event.type === 'lost' && event.bytes !== 0) onLost(event);
    else if (event.type === 'failed') throw event.error;
  }
}

/**
 * Iterates over the output of a process as UTF-8 text, in order. Characters are never split, except at lost output. A
 * marker line replaces lost output, unless there is `onLost`.
 */
export async function* outputTextOf(
  process: ExecProcess,
  options: OutputOptions = {},
): AsyncGenerator<OutputText, void> {
  const { signal, onLost } = options;
  const texts = new StreamTexts();
  const gaps = new StreamGaps();
  for await (const event of process.events(signal && { signal })) {
    if (event.type === 'output') {
      yield* gaps.before(event.stream).map(markerText);
      const text = texts.decode(event.stream, event.bytes);
      if (text !== '') yield { stream: event.stream, text };
    } else if (event.type === 'screen') {
      yield { stream: 'pty', text: texts.decode('pty', event.screen.redraw) };
    } else if (event.type === 'lost') {
      yield* texts.flush();
      if (event.bytes === 0) continue;
      if (onLost === undefined) yield* gaps.at(event).map(markerText);
      else onLost(event);
    } else if (event.type === 'closed') {
      yield* texts.flush();
      yield* gaps.atEnd().map(markerText);
    } else if (event.type === 'failed') {
      yield* texts.flush();
      throw event.error;
    }
  }
  // After `detach` there is no last event.
  yield* texts.flush();
}

/** The line that text has in place of lost output. */
export function lossMarker(bytes: number | null): string {
  return `\n... ${bytes ?? 'some'} bytes lost ...\n`;
}

/** A gap in one stream. `bytes` is null when its size is unknown. */
export interface StreamGap {
  readonly stream: OutputStream;
  readonly bytes: number | null;
  readonly lost: LostEvent;
}

/** Finds the streams that have a gap. When the server does not report them, every stream with output counts. */
export class StreamGaps {
  readonly #seen = new Set<OutputStream>();
  #unknown: LostEvent | null = null;

  /** Call it for every output. Returns the gap before the first output of a stream. */
  before(stream: OutputStream): StreamGap[] {
    if (this.#seen.has(stream)) return [];
    this.#seen.add(stream);
    return this.#unknown === null ? [] : [{ stream, bytes: null, lost: this.#unknown }];
  }

  at(lost: LostEvent): StreamGap[] {
    const { streamBytes } = lost;
    if (streamBytes === null) {
      this.#unknown = lost;
      return [...this.#seen].map((stream) => ({ stream, bytes: null, lost }));
    }
    return STREAMS.filter((stream) => streamBytes[stream] > 0).map((stream) => ({
      stream,
      bytes: streamBytes[stream],
      lost,
    }));
  }

  /** Call it at the end. Returns a gap when no output arrived before or after it. */
  atEnd(): StreamGap[] {
    return this.#seen.size === 0 ? this.before('stdout') : [];
  }
}

function markerText({ stream, bytes, lost }: StreamGap): OutputText {
  return { stream, text: lossMarker(bytes), lost };
}

function throwLost(lost: LostEvent): never {
  throw new ClientError('outputLost', `${lost.bytes ?? 'some'} bytes of output are lost`, {
    data: lost,
    hint: 'pass `onLost` to continue behind the gap, or let the server retain more output',
  });
}

/** One decoder per stream, which joins characters that are split between two chunks. */
class StreamTexts {
  readonly #decoders = new Map<OutputStream, InstanceType<typeof TextDecoder>>();

  decode(stream: OutputStream, bytes: Uint8Array): string {
    let decoder = this.#decoders.get(stream);
    if (decoder === undefined) {
      decoder = new TextDecoder('utf-8', { ignoreBOM: true });
      this.#decoders.set(stream, decoder);
    }
    return decoder.decode(bytes, { stream: true });
  }

  /** Returns the remains of characters that will not be completed. */
  *flush(): Generator<OutputText, void> {
    for (const [stream, decoder] of this.#decoders) {
      const text = decoder.decode();
      if (text !== '') yield { stream, text };
    }
    this.#decoders.clear();
  }
}
