import type { ReceivedFrame } from '../frames/frame.ts';

/** The reason in every reset frame of a peer, even when the stream ends normally: the reference's text. */
export const RESET_REASON = 'noise_relay_protocol_error';

/**
 * The reason in a reset frame of the rendezvous when the other peer lost its connection. A resumable stream waits for the peer to
 * reconnect. Any other stream treats it as a normal reset.
 */
export const PEER_LOST_REASON = 'peer_disconnected';

/**
 * Values of `ack_bits` by which a peer announces support for acks. The reference leaves the field unset and never reads it, so it does
 * not notice. In a handshake the value offers acks or accepts the offer. In a resume it requests to resume a known stream or answers
 * the request.
 */
export const ACK_SUPPORT = 0x61636b31;
const RESUME_REQUEST = 0x72737131;
const RESUME_ANSWER = 0x72736131;

/** Returns the `ack_bits` of a resume frame. */
export function resumeMarker(kind: 'request' | 'answer'): number {
  return kind === 'request' ? RESUME_REQUEST : RESUME_ANSWER;
}

/** Returns the kind of a resume frame. Null for the one that starts a stream and for all resumes of the reference. */
export function resumeKind({ ackBits }: ReceivedFrame): 'request' | 'answer' | null {
  if (ackBits === RESUME_REQUEST) return 'request';
  return ackBits === RESUME_ANSWER ? 'answer' : null;
}
