/** Largest frame that either end takes: the reference's limit for a websocket message. */
export const MAX_FRAME_BYTES = 256 * 1024;

/** Fields of a frame with its body, unknown ones included: twice those that the schema has for the fullest. */
export const MAX_FRAME_FIELDS = 24;

/** Plaintext of one record: the reference resets a stream that has larger ones. */
export const RECORD_BYTES = 60 * 1024;

/** Largest message of a stream: the reference's limit. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Number of the last record of a direction. Numbers are nonces, so that they must not wrap around: the stream ends there. */
export const MAX_SEQ = 2 ** 32 - 2;

/** Records that may arrive ahead of a missing one, and their bytes: the reference's limits. */
export const REORDER_MAX_DISTANCE = 64;
export const REORDER_MAX_BYTES = 1024 * 1024;

/** Messages of one stream that wait for their reader: the reference resets the stream with the next one. */
export const MAX_QUEUED_MESSAGES = 128;

/**
 * Requests that an end leaves unanswered by a peer that does not acknowledge: fewer than the messages above, because notifications
 * and calls that clean up do not wait.
 */
export const MAX_UNANSWERED_REQUESTS = MAX_QUEUED_MESSAGES - 16;

/** Bytes of these messages and the one that is arriving: two of the largest. The reference has no limit of its own for them. */
export const MAX_STREAM_INBOUND_BYTES = 2 * MAX_MESSAGE_BYTES;

/** The same for all streams of a link, so that authorized peers together cannot fill the memory. */
export const MAX_LINK_INBOUND_BYTES = 4 * MAX_STREAM_INBOUND_BYTES;

/** First buffer for a message of several records. It grows with what arrives, not with what is announced. */
export const ASSEMBLY_FIRST_BYTES = 4 * RECORD_BYTES;

/** Messages from this size on are handed over as bytes to an owner who takes them so: the size that websockets use, too. */
export const LARGE_MESSAGE_BYTES = 64 * 1024;

/** Unencrypted bytes of one stream beyond which its owner is asked to hold back. */
export const SEND_WINDOW_BYTES = 256 * 1024;

/**
 * What is encrypted and sent in one turn of the event loop: about two milliseconds. Each frame counts as so many bytes more, which is
 * what the work beside its bytes amounts to.
 */
export const TURN_BYTES = 1024 * 1024;
export const FRAME_COST_BYTES = 4 * 1024;

/** Frames beside records that wait for a slow pipe before nothing more is read from it: the reference's outbound queue. */
export const MAX_WAITING_CONTROL_FRAMES = 128;

/** How long a stream that closes waits until its last messages are out. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** How long a harness waits for the answer to its handshake: the reference's number. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Streams of an executor, and how many of them may be in their handshake: the reference's limits. */
export const MAX_STREAMS = 128;
export const MAX_PENDING_HANDSHAKES = 32;

/** How long the judgement of one harness may take: the reference's limit. */
export const VALIDATION_TIMEOUT_MS = 10_000;

/** Bytes of the authorization in a handshake: the reference's limit. */
export const MAX_AUTHORIZATION_BYTES = 4_096;

/** Failed handshakes after which an executor refuses all for a time: the reference's numbers. */
export const MAX_FAILED_HANDSHAKES = 8;
export const HANDSHAKE_COOLDOWN_MS = 10_000;

/**
 * Records that may be unacknowledged, and their bytes. Each record begins at most one message, so that a reader who has stopped never
 * has more messages waiting than its queue takes.
 */
export const MAX_UNACKNOWLEDGED_RECORDS = MAX_QUEUED_MESSAGES;
export const MAX_UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024;

/** When acks are sent without a record to ride on: after so many records, or this late. */
export const ACK_EVERY_RECORDS = 16;
export const ACK_DELAY_MS = 25;

/** When records without ack are sent again: a relay's round trip and the delay of an ack, many times. It doubles up to the last. */
export const RETRANSMIT_MIN_MS = 1_000;
export const RETRANSMIT_MAX_MS = 16_000;

/** Repetitions in a row to which the peer gives no sign of life before the stream is given up: about a minute. */
export const MAX_SILENT_RETRANSMITS = 7;

/** How long a peer that is asked for a sign of life may take. Slower than any relay that works, faster than clients give up. */
export const PROBE_TIMEOUT_MS = 3_000;

/**
 * How long a stream is kept while its ends do not hear each other: what clients of the reference allow themselves to come back. Nodes of
 * a relay renew their leases often enough for both ends to meet at another node meanwhile.
 */
export const RESUME_WINDOW_MS = 25_000;

/** Pings to the rendezvous, and when it counts as gone because nothing came: the reference's numbers. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_MS = 60_000;

/** How long opening a connection to the rendezvous, or to where a forwarder leads, may take: the reference's number. */
export const SOCKET_CONNECT_TIMEOUT_MS = 10_000;

/** Bytes of a registry's answer: the largest, with a key and an authorization, has some 8 KB. */
export const MAX_REGISTRY_ANSWER_BYTES = 64 * 1024;

/** Characters of what a registry says about a failure that a message repeats. The reference shows more than a line should have. */
export const MAX_REGISTRY_MESSAGE_CHARS = 300;

/** How long a registry may take for a registration. A harness waits less, because somebody waits for the harness. */
export const REGISTER_TIMEOUT_MS = 10_000;
export const BUNDLE_TIMEOUT_MS = 6_000;

/** How long a proxy may take to make a connection. */
export const TUNNEL_TIMEOUT_MS = 10_000;

/** Pauses of an executor before it tries again: doubled from the first to the last, each shortened at random by up to a half. */
export const EXECUTOR_BACKOFF_MIN_MS = 1_000;
export const EXECUTOR_BACKOFF_MAX_MS = 30_000;

/** Pauses of a harness, each lengthened at random by up to a half: the reference's numbers. */
export const HARNESS_BACKOFF_MIN_MS = 500;
export const HARNESS_BACKOFF_MAX_MS = 5_000;

/** A connection to the rendezvous that lasted this long was a good one: another is looked for without a pause. */
export const STABLE_CONNECTION_MS = 5_000;

/** How often and how long a harness that connects asks its registry again: the reference's numbers. */
export const MAX_BUNDLE_RETRIES = 4;
export const BUNDLE_TOTAL_TIMEOUT_MS = 14_000;

/** Bytes of one line with a credential: a token of several kilobytes, and the words around it. */
export const MAX_CREDENTIAL_LINE_BYTES = 64 * 1024;

/** How long a harness may take to connect: to its registry, to the rendezvous and to the executor. */
export const HARNESS_CONNECT_TIMEOUT_MS =
  BUNDLE_TOTAL_TIMEOUT_MS + SOCKET_CONNECT_TIMEOUT_MS + HANDSHAKE_TIMEOUT_MS;
