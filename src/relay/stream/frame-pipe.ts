import type { CloseReason } from '../../transport/transport.ts';

/** Events of a pipe. None comes before `open` or after `closed`. */
export interface FramePipeEvents {
  /** One complete, unvalidated frame. The receiver owns the bytes. */
  frame(bytes: Uint8Array): void;
  /** The pipe accepts frames again after `send` returned false. */
  drained(): void;
  /** The pipe has closed, with the reason if known. Called exactly once, whichever side closed it. */
  closed(reason?: CloseReason): void;
}

/** Carries frames between a link and its rendezvous. A websocket, or any channel that preserves message boundaries. */
export interface FramePipe {
  /** Starts delivery. Must be called once. Earlier frames are kept until then. */
  open(events: FramePipeEvents): void;
  /** Accepts every frame while the pipe is open and drops frames after its end. False asks to stop sending until `drained`. */
  send(frame: Uint8Array): boolean;
  /** Pauses or resumes reading. A few frames may still arrive after a pause. */
  setReceiving(receiving: boolean): void;
  /** Closes the pipe after the frames already sent. */
  close(): void;
}
