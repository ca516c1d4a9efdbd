/** Largest frame that a peer accepts: the reference's limit for a websocket message. */
export const MAX_FRAME_BYTES = 256 * 1024;

/** Maximum number of fields in a frame and its body, including unknown ones: twice the maximum in the schema. */
export const MAX_FRAME_FIELDS = 24;

/** Plaintext bytes per record. The reference resets a stream with larger records. */
export const RECORD_BYTES = 60 * 1024;

/** Largest message of a stream: the reference's limit. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Segments of one message: 64 MiB in segments of 1 KiB. The reference knows only messages of one segment. */
export const MAX_SEGMENTS = 65_536;

/** Last sequence number of a direction. It is also the nonce, which must not wrap around: the stream ends there. */
export const MAX_SEQ = 2 ** 32 - 2;

/** Early records kept after a missing one, and their bytes: the reference's limits. */
export const REORDER_MAX_DISTANCE = 64;
export const REORDER_MAX_BYTES = 1024 * 1024;

/** Queued messages of one stream. The reference resets the stream when one more arrives. */
export const MAX_QUEUED_MESSAGES = 128;

/**
 * Unanswered requests to a peer without acks. Fewer than the messages above, because notifications and cleanup calls are sent without
 * waiting.
 */
export const MAX_UNANSWERED_REQUESTS = MAX_QUEUED_MESSAGES - 16;

/** Bytes of queued and incomplete messages per stream: two of the largest. The reference has no such limit. */
export const MAX_STREAM_INBOUND_BYTES = 2 * MAX_MESSAGE_BYTES;

/** The same limit for all streams of a link. Bounds the memory that all authorized peers together can use. */
export const MAX_LINK_INBOUND_BYTES = 4 * MAX_STREAM_INBOUND_BYTES;

/** Initial buffer for a message of several records. It grows with the received bytes, not with the announced length. */
export const ASSEMBLY_FIRST_BYTES = 4 * RECORD_BYTES;

/** Messages of at least this size are delivered as bytes if the owner supports it. The websocket transport uses the same size. */
export const LARGE_MESSAGE_BYTES = 64 * 1024;

/** Unencrypted bytes of one stream above which `send` reports back-pressure. */
export const SEND_WINDOW_BYTES = 256 * 1024;

/**
 * Bytes that are encrypted and sent in one event loop iteration: about 2 ms of work. Each frame adds a fixed cost for the work that
 * does not depend on its size.
 */
export const TICK_BYTES = 1024 * 1024;
export const FRAME_COST_BYTES = 4 * 1024;

/** Control frames queued for a slow pipe before reading from it stops: the size of the reference's outbound queue. */
export const MAX_WAITING_CONTROL_FRAMES = 128;

/** Time that a closing stream has to send its last messages. */
export const CLOSE_TIMEOUT_MS = 2_000;

/** Time that a harness waits for the answer to its handshake: the reference's value. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Streams of an executor, and concurrent handshakes among them: the reference's limits. */
export const MAX_STREAMS = 128;
export const MAX_PENDING_HANDSHAKES = 32;

/** Time for authorizing one harness: the reference's limit. */
export const VALIDATION_TIMEOUT_MS = 10_000;

/** Size of the authorization in a handshake: the reference's limit. */
export const MAX_AUTHORIZATION_BYTES = 4_096;

/** Failed handshakes after which an executor refuses all for the cooldown: the reference's values. */
export const MAX_FAILED_HANDSHAKES = 8;
export const HANDSHAKE_COOLDOWN_MS = 10_000;

/**
 * Unacknowledged records and their bytes. Each record starts at most one message, so the queue of a paused reader never exceeds
 * {@link MAX_QUEUED_MESSAGES}.
 */
export const MAX_UNACKNOWLEDGED_RECORDS = MAX_QUEUED_MESSAGES;
export const MAX_UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024;

/** Sends an ack without a record after this many records or this delay. */
export const ACK_EVERY_RECORDS = 16;
export const ACK_DELAY_MS = 25;

/** Retransmission timeout: many times a relay's round trip plus the ack delay. It doubles up to the maximum. */
export const RETRANSMIT_MIN_MS = 1_000;
export const RETRANSMIT_MAX_MS = 16_000;

/** Consecutive unanswered retransmissions before the stream fails: about a minute. */
export const MAX_SILENT_RETRANSMITS = 7;

/** Time to answer a probe. Longer than the round trip of any working relay, shorter than the timeout of clients. */
export const PROBE_TIMEOUT_MS = 3_000;

/**
 * Time that a stream is kept while its peers are disconnected: the reconnect time of the reference's clients. Relay nodes renew their
 * leases often enough for both peers to reconnect at another node within this time.
 */
export const RESUME_WINDOW_MS = 25_000;

/** Ping interval to the rendezvous, and the silence after which its connection counts as lost: the reference's values. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_MS = 60_000;

/** Time to connect to the rendezvous or to the target of a forwarder: the reference's value. */
export const SOCKET_CONNECT_TIMEOUT_MS = 10_000;

/** Largest response of a registry. With a key and an authorization it has about 8 KB. */
export const MAX_REGISTRY_ANSWER_BYTES = 64 * 1024;

/** Characters of a registry's error text that our message includes. The reference shows more than fits a line. */
export const MAX_REGISTRY_MESSAGE_CHARS = 300;

/** Request timeouts of a registration and of a harness. A harness waits less, because its user waits for it. */
export const REGISTER_TIMEOUT_MS = 10_000;
export const BUNDLE_TIMEOUT_MS = 6_000;

/** Time for a proxy to open a connection. */
export const TUNNEL_TIMEOUT_MS = 10_000;

/** Retry backoff of an executor: doubles from the minimum to the maximum; jitter shortens each delay by up to half. */
export const EXECUTOR_BACKOFF_MIN_MS = 1_000;
export const EXECUTOR_BACKOFF_MAX_MS = 30_000;

/** Retry backoff of an executor with the direct transport; jitter lengthens each delay by up to half: the reference's values. */
export const DIRECT_BACKOFF_MIN_MS = 500;
export const DIRECT_BACKOFF_MAX_MS = 5_000;

/** Answers of AWS services with keys have about 2 KB. */
export const MAX_AWS_ANSWER_BYTES = 64 * 1024;

/** Time for the keys of a signature. The metadata service of a machine answers within milliseconds, or there is none. */
export const AWS_METADATA_TIMEOUT_MS = 1_000;
export const AWS_SERVICE_TIMEOUT_MS = 5_000;
export const AWS_CREDENTIAL_PROCESS_TIMEOUT_MS = 30_000;

/** Time for the end of the output after a `credential_process` exited. A background process may keep the pipe open. */
export const AWS_OUTPUT_AFTER_EXIT_MS = 1_000;

/** Connection time after which the backoff of an executor starts again from its minimum. */
export const EXECUTOR_STABLE_MS = 120_000;

/** Retry backoff of a registration that another one or the registry's own sign-in delays; jitter lengthens: the reference's values. */
export const REGISTRATION_BACKOFF_MIN_MS = 500;
export const REGISTRATION_BACKOFF_MAX_MS = 5_000;

/** Retry backoff of a harness; jitter lengthens each delay by up to half: the reference's values. */
export const HARNESS_BACKOFF_MIN_MS = 500;
export const HARNESS_BACKOFF_MAX_MS = 5_000;

/** A connection to the rendezvous that lasted this long was stable: the first reconnect skips the backoff. */
export const STABLE_CONNECTION_MS = 5_000;

/** Retries of a connecting harness at its registry, and their total time: the reference's values. */
export const MAX_BUNDLE_RETRIES = 4;
export const BUNDLE_TOTAL_TIMEOUT_MS = 14_000;

/** Time for a response of a service that issues or checks credentials, and for the public keys of such a service. */
export const AUTH_SERVICE_TIMEOUT_MS = 30_000;
export const PUBLIC_KEYS_TIMEOUT_MS = 10_000;

/** Largest response of such a service, the reference's limit, and how often it may redirect a request. */
export const MAX_AUTH_SERVICE_ANSWER_BYTES = 1024 * 1024;
export const MAX_AUTH_SERVICE_REDIRECTS = 5;

/** Largest files that are read for signing in: codex's config.toml and auth.json, and a workload's identity token. */
export const MAX_CODEX_CONFIG_BYTES = 1024 * 1024;
export const MAX_AUTH_FILE_BYTES = 256 * 1024;

/** Deepest nesting of auth.json. codex does not read deeper JSON either. */
export const MAX_AUTH_FILE_DEPTH = 127;
export const MAX_IDENTITY_TOKEN_BYTES = 16 * 1024;

/** A login is renewed this long before it expires, or this long after its last renewal: the reference's values. */
export const RENEW_BEFORE_EXPIRY_MS = 5 * 60_000;
export const RENEW_AFTER_MS = 8 * 24 * 3_600_000;

/** A workload's token is renewed this long before it expires, at most half its life: the reference's values. */
export const WORKLOAD_RENEW_BEFORE_MS = 120_000;
export const MAX_WORKLOAD_TOKEN_SECONDS = 3_600;
/** How long a workload's valid token is kept after a renewal failed temporarily: the reference's value. */
export const WORKLOAD_RETRY_MS = 30_000;

/** Time to wait for another process that renews the same login: longer than a renewal may take. */
export const AUTH_LOCK_TIMEOUT_MS = 40_000;
export const AUTH_LOCK_POLL_MS = 50;

/** Attempts to register the task of an agent, and the clock difference that its token may have: the reference's values. */
export const AGENT_TASK_ATTEMPTS = 3;
export const AGENT_TOKEN_LEEWAY_MS = 60_000;

/** Longest environment id. OpenAI's have more than 64 characters. */
export const MAX_ENVIRONMENT_ID_CHARS = 512;

/** Longest credential line with its line feed, and the time for the first one: the reference's limits. */
export const MAX_CREDENTIAL_LINE_BYTES = 16 * 1024;
export const FIRST_CREDENTIAL_TIMEOUT_MS = 30_000;

/** Total time for a harness to connect: registry, rendezvous and handshake with the executor. */
export const HARNESS_CONNECT_TIMEOUT_MS =
  BUNDLE_TOTAL_TIMEOUT_MS + SOCKET_CONNECT_TIMEOUT_MS + HANDSHAKE_TIMEOUT_MS;
