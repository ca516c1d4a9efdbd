import type { CloseReason } from '../../transport/transport.ts';

/** What a pipe tells its owner. No event comes before `open`, and nothing after `closed`. */
export interface FramePipeEvents {
  /** One frame, whole but unchecked. The bytes belong to the owner. */
  frame(bytes: Uint8Array): void;
  /** There is room again after `send` returned false. */
  drained(): void;
  /** The end, exactly once, whoever caused it, and why where that is known. */
  closed(reason?: CloseReason): void;
}

/** What carries frames between a link and its rendezvous: a websocket, or whatever keeps their boundaries. */
export interface FramePipe {
  /** Starts delivery. Must be called once; frames that arrived before are kept until then. */
  open(events: FramePipeEvents): void;
  /** Never refused while the pipe is open; after its end frames are dropped. False asks to hold back until `drained`. */
  send(frame: Uint8Array): boolean;
  /** Stops or resumes the intake. A few frames may still come after a stop. */
  setReceiving(receiving: boolean): void;
  /** Ends the pipe after what was sent. */
  close(): void;
}
