import type { ReceivedFrame } from '../frames/frame.ts';

/** The reason of every reset that an end of a stream sends, also when the stream simply ends: the reference's. */
export const RESET_REASON = 'noise_relay_protocol_error';

/**
 * The reason of a reset with which a rendezvous tells that the other end has lost its connection. A stream that both ends can resume
 * waits for it to come back; to any other it is a reset like all others.
 */
export const PEER_LOST_REASON = 'peer_disconnected';

/**
 * Values of `ack_bits` that mark a peer which acknowledges. The reference leaves the field unset and never looks at it, so that two
 * ends of this kind find each other and no other notices. On a handshake the mark offers to acknowledge, or accepts the offer. On a
 * resume it asks the peer of a known stream to go on, or answers that.
 */
export const ACKNOWLEDGES = 0x61636b31;
const RESUME_REQUEST = 0x72737131;
const RESUME_ANSWER = 0x72736131;

/** `ack_bits` of a resume. */
export function resumeMark(kind: 'request' | 'answer'): number {
  return kind === 'request' ? RESUME_REQUEST : RESUME_ANSWER;
}

/** What a resume of a known stream is; null for the one that begins a stream, and for all of the reference's. */
export function resumeKind({ ackBits }: ReceivedFrame): 'request' | 'answer' | null {
  if (ackBits === RESUME_REQUEST) return 'request';
  return ackBits === RESUME_ANSWER ? 'answer' : null;
}
