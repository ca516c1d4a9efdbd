/** Connections that one listener of a proxy serves at a time. Browsers and package managers open dozens; further ones are closed. */
export const MAX_CONNECTIONS = 256;

/** Descriptors of a connection: that of the program and that to the destination. */
export const DESCRIPTORS_PER_CONNECTION = 2;

/** Requests that a client may pipeline on one connection. Hardly any client sends a second one before the first response. */
export const MAX_REQUESTS_AHEAD = 16;

/** Bytes of the head of a request or a response: more than servers accept. */
export const MAX_HEADER_BYTES = 32 * 1024;

/** Time for the head of a request to arrive. */
export const HEAD_TIMEOUT_MS = 30_000;

/** How long a connection may wait for its next request. */
export const KEEP_ALIVE_MS = 60_000;

/** Time for the SOCKS5 handshake, which takes two short messages. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Time for one address to accept a connection. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** Addresses of a host that are tried in turn. */
export const MAX_ADDRESSES_TRIED = 4;

/** How long a connection may be idle. Long polls and quiet terminals stay well below this. */
export const IDLE_TIMEOUT_MS = 60 * 60 * 1000;

/** How long a client that has its response may continue its request before the connection is closed. */
export const LINGER_MS = 5_000;

/** Timeout of a name lookup. The proxy does not connect to a host whose addresses are unknown. */
export const LOOKUP_TIMEOUT_MS = 2_000;

/** Concurrent name lookups. Each blocks a libuv thread, which file operations need too, until the name server responds. */
export const LOOKUP_CONCURRENCY = 4;

/** Queued name lookups. Each waits only briefly, so more of them mean that the name server does not respond. */
export const MAX_WAITING_LOOKUPS = 256;

/** Longest host name in DNS. */
export const MAX_HOST_BYTES = 253;

/** Host patterns of one proxy. */
export const MAX_PATTERNS = 4096;

/**
 * Characters of all patterns with wildcards, except for `*.` at the beginning. Every request of a program is compared with them, which
 * takes at most the product of the lengths: ten milliseconds.
 */
export const MAX_GLOB_CHARACTERS = 16 * 1024;

/** Longest pattern: a host, a port and wildcards. */
export const MAX_PATTERN_LENGTH = 512;

/** UDP associations of one proxy; each has three sockets. */
export const MAX_ASSOCIATIONS = 16;

/** Destinations of one association; datagrams to further ones are dropped. */
export const MAX_UDP_TARGETS = 64;

/** Datagrams that wait for the decision about their destination; further ones are dropped. */
export const MAX_WAITING_DATAGRAMS = 16;

/** Bytes of datagrams queued for the network on one socket; further ones are dropped. */
export const MAX_UDP_QUEUE_BYTES = 1024 * 1024;

/** An association without a datagram for this long ends. */
export const UDP_IDLE_MS = 5 * 60 * 1000;

/** Open policy requests to the client of one session; further ones are denied. */
export const MAX_OPEN_POLICY_REQUESTS = 256;

/** How much longer than its timeout the server waits for a decision, which may be on its way. */
export const ANSWER_GRACE_MS = 5_000;

/** Longest reason that a client may send. */
export const MAX_REASON_BYTES = 1024;

/** Longest process id in a policy request; each request repeats it. */
export const MAX_POLICY_PROCESS_ID_BYTES = 256;

/** Decisions about one process that wait for a slow client: about 300 KiB. The oldest are dropped and counted. */
export const MAX_WAITING_DECISIONS = 1024;

/** Decisions about all processes of a session that wait for a slow client. */
export const MAX_WAITING_SESSION_DECISIONS = 8 * MAX_WAITING_DECISIONS;

/** Host certificates in the cache; the least recently used one is evicted. */
export const MAX_LEAVES = 256;

/** Validity of a host certificate: as long as the strictest clients accept, and longer than most programs run. */
export const LEAF_DAYS = 90;

/** Age at which a certificate is renewed, so that programs that start now end before it expires. */
export const LEAF_RENEWAL_DAYS = 30;

/** Validity of the CA certificate: longer than any server runs. */
export const AUTHORITY_DAYS = 3650;

/** How far the clock of a program may be behind. */
export const BACKDATED_DAYS = 1;

/** Timeout of the TLS handshake with a web server, and of that with a program. */
export const TLS_HANDSHAKE_MS = 15_000;
