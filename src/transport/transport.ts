/** Why a transport ended, in websocket terms: 1000 for a clean end, 1006 when the peer just vanished. */
export interface CloseReason {
  readonly code: number;
  readonly reason: string;
}

/** What a transport tells its owner. No event comes before `open`, and nothing after `closed`. */
export interface TransportEvents {
  /** One whole message. The text may be anything: decoding is the owner's business. */
  message(text: string): void;
  /** A large message begins, probably of so many bytes; who is returned gets them as they arrive. Without this it comes as text too. */
  largeMessage?(expectedBytes: number): LargeMessage;
  /** A message of {@link Transport.sendBytes}. */
  bytesMessage?(message: BytesMessage): void;
  /** Something arrived that is not text; the transport goes on. */
  undecodable(reason: string): void;
  /** Everything handed over has been passed on to the system after `send` returned false. */
  drained(): void;
  /** The peer will send nothing more but still reads; the owner answers what it has and closes. Not every transport knows this state. */
  ended(): void;
  /** The end, exactly once, whoever caused it. */
  closed(reason: CloseReason): void;
}

/** A message with a member that would be base64, as bytes beside the text. In the text the member is an empty string. */
export interface BytesMessage {
  readonly text: string;
  /** The name of the member in the params or the result. */
  readonly field: string;
  readonly bytes: Uint8Array;
}

/** Takes a large message piece by piece. One that is cut off, or is not UTF-8, does not end. */
export interface LargeMessage {
  /** The next bytes, good during the call only. */
  add(piece: Uint8Array): void;
  /** Whether what was added is valid UTF-8; asked before the end, where that is not known. */
  isUtf8(): boolean;
  /** All of it has come. */
  end(): void;
}

/**
 * One connection as a stream of messages in both directions. A transport knows bytes and nothing of what they mean.
 */
export interface Transport {
  /** Largest message that can be sent; absent where there is no limit. */
  readonly maxMessageBytes?: number;
  /** Requests that the peer takes without having answered them; absent where only their bytes count. */
  readonly maxUnansweredRequests?: number | undefined;
  /** Starts delivery. Must be called once; messages that arrived before are kept until then. */
  open(events: TransportEvents): void;
  /**
   * Hands over one encoded message (UTF-8 when it is bytes); it is never refused while the transport is open. False asks the
   * caller to hold back bulk data until `drained`. After the end messages are dropped. `released` is called when the bytes are no
   * longer needed and may be overwritten; not every transport says so, and none does after its end.
   */
  send(message: string | Uint8Array, released?: () => void): boolean;
  /**
   * Hands over a part of a message that is too large for one piece. Nothing else may be sent between its first part and its last.
   * For the rest it is like {@link send}.
   */
  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean;
  /** Like {@link send}, without encoding the bytes; the peer owns them afterwards. Present where both ends are in one process. */
  sendBytes?(message: BytesMessage): void;
  /** Makes sure that the peer is still there: one from which nothing comes in time is dropped. Absent where there is no way to tell. */
  probe?(): void;
  /** Stops or resumes the intake of messages, so that the peer feels back-pressure. */
  setReceiving(receiving: boolean): void;
  /** Ends the connection after what was sent. A peer that does not cooperate is cut off after a short time. */
  close(reason: CloseReason): void;
}

/** Codes of {@link CloseReason}. */
export const CloseCode = {
  normal: 1000,
  goingAway: 1001,
  protocolError: 1002,
  abnormal: 1006,
  policyViolation: 1008,
  messageTooBig: 1009,
  internalError: 1011,
  tryAgainLater: 1013,
} as const;
