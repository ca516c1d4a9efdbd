/** Why a transport ended, as a websocket close code: 1000 for a clean end, 1006 when the peer vanished. */
export interface CloseReason {
  readonly code: number;
  readonly reason: string;
  /** Whether a program that was started for this transport has ended by itself. */
  readonly programEnded?: boolean;
}

/** Callbacks of a transport. No event comes before `open`, and none after `closed`. */
export interface TransportEvents {
  /** A whole message. The text may be invalid: the receiver decodes it. */
  message(text: string): void;
  /**
   * A large message begins, of about this many bytes. The returned object receives its chunks. Without this
   * callback it arrives through `message`.
   */
  largeMessage?(expectedBytes: number): LargeMessage;
  /** A binary message. The receiver owns the bytes. Without this callback such messages are dropped. */
  bytesMessage?(message: BytesMessage): void;
  /** Received data is neither text nor a binary message; the transport continues. */
  undecodable(reason: string): void;
  /** After `send` returned false, everything has been passed to the system. */
  drained(): void;
  /**
   * The peer sends nothing more but still reads. The receiver answers what it has and closes. Not every transport
   * has this state.
   */
  ended(): void;
  /** The transport has ended. Called exactly once, for either side. */
  closed(reason: CloseReason): void;
}

/**
 * A message with its large member as bytes beside the text, instead of base64. In the text the member is an empty
 * string.
 */
export interface BytesMessage {
  readonly text: string;
  readonly bytes: Uint8Array;
  /** Declares that the bytes of a received message are no longer used, and that their memory may be reused. Optional. */
  release?(): void;
}

/** Receives a large message in chunks. `end` is not called when it is cut off or not UTF-8. */
export interface LargeMessage {
  /** Adds the next bytes, which are valid during the call only. */
  add(piece: Uint8Array): void;
  /** Whether the added bytes are valid UTF-8. Called before `end` where the transport does not know. */
  isUtf8(): boolean;
  /** The message is complete. */
  end(): void;
}

/**
 * One connection as a stream of messages in both directions. A transport moves bytes and does not interpret them.
 */
export interface Transport {
  /** Largest message that can be sent; absent means no limit. */
  readonly maxMessageBytes?: number;
  /** Requests that the peer accepts without having answered them; absent means that only their bytes count. */
  readonly maxUnansweredRequests?: number | undefined;
  /** Starts delivery. Must be called once; earlier messages are kept until then. */
  open(events: TransportEvents): void;
  /**
   * Sends one encoded message (UTF-8 when it is bytes). It is never refused while the transport is open, and
   * dropped after its end. False asks the caller to hold back bulk data until `drained`. `released` is called when
   * the bytes may be overwritten. Some transports never call it, and none does after its end.
   */
  send(message: string | Uint8Array, released?: () => void): boolean;
  /**
   * Sends a part of a message that is too large for one buffer. Nothing else may be sent between the first part and
   * the last. `isBinary` is the same for all parts: whether they are those of a binary message. Otherwise like {@link send}.
   */
  sendPart(part: Uint8Array, last: boolean, released?: () => void, isBinary?: boolean): boolean;
  /**
   * Like {@link send}, without encoding the bytes. Without `released` the bytes must not be changed any more. Absent where the transport
   * has no binary frames.
   */
  sendBytes?(message: BytesMessage, released?: () => void): boolean;
  /** The peer may send binary messages from now on. Before that they are refused as text. Absent where there is nothing to do. */
  acceptBytes?(): void;
  /** Whether both ends are in one process. Default: false. */
  readonly inProcess?: boolean;
  /**
   * Checks that the peer is alive, and drops it when it does not answer in time. Absent where this is impossible.
   */
  probe?(): void;
  /**
   * Calls `confirmed` as soon as the peer has received what was sent before `sentBeforeMs` (see `uptimeMs`): immediately
   * when it was heard from since then. Never calls it when the peer is gone. Absent where this cannot be known.
   */
  confirmReceived?(sentBeforeMs: number, confirmed: () => void): void;
  /** The peer has sent a valid `initialize`: lifts the stricter limits for new peers, where there are any. */
  peerInitialized?(): void;
  /** From now on the open connection does not keep Node running. Absent where it never does. */
  unref?(): void;
  /** Stops or resumes receiving messages, which creates back-pressure for the peer. */
  setReceiving(receiving: boolean): void;
  /**
   * Closes the connection after everything that was sent. A peer that does not cooperate is cut off after a short
   * time.
   */
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
