import type { ExecProcess, LostEvent, OutputStream } from '../backend.ts';

/** A chunk of output as bytes. */
export interface OutputBytes {
  readonly stream: OutputStream;
  readonly bytes: Uint8Array;
}

/** A chunk of output as text. */
export interface OutputText {
  readonly stream: OutputStream;
  readonly text: string;
}

export interface OutputOptions {
  readonly signal?: AbortSignal;
  /** Called for output that is lost. */
  readonly onLost?: (lost: LostEvent) => void;
}

/** Iterates over the output of a process, in order. Throws when the process can no longer be followed. */
export async function* outputOf(
  process: ExecProcess,
  options: OutputOptions = {},
): AsyncGenerator<OutputBytes, void> {
  for await (const event of process.events(options.signal && { signal: options.signal })) {
    if (event.type === 'output') yield { stream: event.stream, bytes: event.bytes };
    else if (event.type === 'lost') options.onLost?.(event);
    else if (event.type === 'failed') throw event.error;
  }
}

/**
 * Iterates over the output of a process as UTF-8 text, in order. Characters are never split, except at lost output.
 */
export async function* outputTextOf(
  process: ExecProcess,
  options: OutputOptions = {},
): AsyncGenerator<OutputText, void> {
  const texts = new StreamTexts();
  for await (const event of process.events(options.signal && { signal: options.signal })) {
    if (event.type === 'output') {
      const text = texts.decode(event.stream, event.bytes);
      if (text !== '') yield { stream: event.stream, text };
    } else if (event.type === 'lost') {
      yield* texts.flush();
      options.onLost?.(event);
    } else if (event.type === 'closed') {
      yield* texts.flush();
    } else if (event.type === 'failed') {
      yield* texts.flush();
      throw event.error;
    }
  }
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
