import type { TerminalSize } from '../terminal-size.ts';
import type { ScreenStart, TerminalInput } from './drawn-screen.ts';

type SentInput = Uint8Array<ArrayBuffer> | TerminalSize;

/** The first message from the thread: it can draw now. */
export const READY = 'ready';

/** A message to the thread that draws screens. It is answered with a drawn screen. */
export interface DrawingRequest {
  readonly start: Omit<ScreenStart, 'input'> & { readonly input: readonly SentInput[] };
  readonly inputs: readonly SentInput[];
}

/** Copies the bytes: sending a part of a buffer would copy all of it. */
export function toMessage(inputs: readonly TerminalInput[]): SentInput[] {
  return inputs.map((input) => (Buffer.isBuffer(input) ? new Uint8Array(input) : input));
}

/** Buffers arrive as arrays. */
export function fromMessage(inputs: readonly SentInput[]): TerminalInput[] {
  return inputs.map((input) => (input instanceof Uint8Array ? bufferOf(input) : input));
}

export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}
