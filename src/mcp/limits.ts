/** Largest message of a client on stdio, and largest body of a request: a file that `write_file` writes, in JSON. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** Of a message that is too long: bytes of a member that are read for its id, and members. */
export const MAX_MEMBER_BYTES = 1024;
export const MAX_MEMBERS = 16;

/** How long a client may take to name its roots. Programs answer immediately; a call must not wait for one that never does. */
export const ROOTS_TIMEOUT_MS = 5_000;

/** Roots of a client that are used; further ones are ignored. Each becomes a mount of the sandbox. */
export const MAX_CLIENT_ROOTS = 32;

/** Roots that an answer names when they cannot be used, and the characters of each. */
export const MAX_SHOWN_ROOTS = 4;
export const MAX_SHOWN_ROOT_CHARS = 500;

/** Resources that `resources/list` names: those of the latest results. */
export const MAX_LISTED_RESOURCES = 100;

/** Cancelled calls whose programs the next answer names. */
export const MAX_CANCELLED_CALLS = 8;

/** Characters of a command, or of what is typed, that a question to the user shows. */
export const MAX_QUESTION_CHARS = 2_000;

/** Characters of a path, or of what is written to a file, that a question to the user shows. */
export const MAX_EXCERPT_CHARS = 500;

/** Questions to the user that wait for their answer, for one client or all clients without a session; then the oldest is forgotten. */
export const MAX_OPEN_QUESTIONS = 256;

/** How long an answer to a question counts. */
export const QUESTION_EXPIRY_MS = 60 * 60_000;

/** Sessions of HTTP clients that speak the 2025 protocol. Each takes about 100 KB. */
export const MAX_SESSIONS = 128;

/** The most sessions of one owner of tokens. The rest is kept for other owners. */
export const MAX_SESSIONS_PER_OWNER = 96;

/** How long a session stays without a request and without an open stream. */
export const SESSION_IDLE_MS = 30 * 60_000;

/** How often idle sessions are looked for. */
export const SESSION_CHECK_MS = 60_000;

/** Connections of HTTP clients. A client has one for each call that waits, and one for a stream of notifications. */
export const MAX_HTTP_CONNECTIONS = 256;

/** Bodies of all requests that are being read or handled. */
export const MAX_BODY_BYTES_IN_ALL = 64 * 1024 * 1024;

/** Resources that are read for HTTP clients at a time, each of at most 8 MiB, and those that wait. */
export const MAX_LARGE_RESULTS = 4;
export const MAX_WAITING_RESULTS = 256;

/** Calls of all HTTP clients that run at a time, and those that wait. Each may hold a few MiB of output. */
export const MAX_HTTP_CALLS = 64;
export const MAX_WAITING_HTTP_CALLS = 256;

/** Results that HTTP clients have asked for and not read yet. Further calls and resources are refused. */
export const MAX_RESULT_BYTES_IN_ALL = 32 * 1024 * 1024;

/** Messages in the body of one request. Clients send one. */
export const MAX_BATCH = 16;

/** Requests that a connection may have under way. Clients send one after the other. */
export const MAX_PIPELINED_REQUESTS = 16;

/** How long a client may take to send a request. */
export const REQUEST_TIMEOUT_MS = 30_000;

/** How long a client may read nothing of a response that waits for it. Then its connection is closed. */
export const STALLED_RESPONSE_MS = 60_000;
