/** Connections that one listener of a proxy serves at a time: browsers and package managers open dozens; further ones are cut. */
export const MAX_CONNECTIONS = 256;

/** Requests that a client may send ahead on one connection; hardly any client sends a second one before the first is answered. */
export const MAX_REQUESTS_AHEAD = 16;

/** Bytes of a request's head, and of an answer's: more than servers accept. */
export const MAX_HEADER_BYTES = 32 * 1024;

/** Time for the head of a request to arrive. */
export const HEAD_TIMEOUT_MS = 30_000;

/** How long a connection may wait for its next request. */
export const KEEP_ALIVE_MS = 60_000;

/** Time for the handshake of SOCKS5, which takes two short messages. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Time for one address to accept a connection. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** Addresses of a host that are tried one after another. */
export const MAX_ADDRESSES_TRIED = 4;

/** A connection on which nothing moves for so long is dead; long polls and quiet terminals stay well below. */
export const IDLE_TIMEOUT_MS = 60 * 60 * 1000;

/** How long a client that has its answer may go on with its request, before its connection is closed. */
export const LINGER_MS = 5_000;

/** How long a name may take to be resolved; a host whose addresses are unknown is not connected to. */
export const LOOKUP_TIMEOUT_MS = 2_000;

/** Names that are resolved at a time: each takes a thread that file operations need too, for as long as the name server is silent. */
export const LOOKUP_CONCURRENCY = 4;

/** Names that wait to be resolved; nobody waits for long, so that more only come together when the name server is silent. */
export const MAX_WAITING_LOOKUPS = 256;

/** Longest name of a host, as the name system has it. */
export const MAX_HOST_BYTES = 253;

/** Host patterns of one proxy: every request is compared with all of them that have wildcards. */
export const MAX_PATTERNS = 4096;

/** Longest pattern: a host and a port, and wildcards. */
export const MAX_PATTERN_LENGTH = 512;

/** UDP associations of one proxy; each has three sockets. */
export const MAX_ASSOCIATIONS = 16;

/** Destinations that one association may talk to; datagrams to further ones are dropped. */
export const MAX_UDP_TARGETS = 64;

/** Datagrams that wait while their destination is being judged; further ones are dropped, as datagrams may be. */
export const MAX_WAITING_DATAGRAMS = 16;

/** Bytes of datagrams that wait for the network on one socket; further ones are dropped. */
export const MAX_UDP_QUEUE_BYTES = 1024 * 1024;

/** An association without a datagram for so long has ended. */
export const UDP_IDLE_MS = 5 * 60 * 1000;

/** Questions to the client of one session that may be open; what would be the next one is denied. */
export const MAX_OPEN_POLICY_REQUESTS = 256;

/** How much longer than agreed the server waits for an answer, which may be on its way. */
export const ANSWER_GRACE_MS = 5_000;

/** Longest reason that a client may give. */
export const MAX_REASON_BYTES = 1024;

/** Longest process id that questions can be asked about; each question repeats it. */
export const MAX_POLICY_PROCESS_ID_BYTES = 256;

/** Decisions about one process that wait for a client that does not read: about 300 KiB. The oldest go first and are counted. */
export const MAX_WAITING_DECISIONS = 1024;

/** Decisions about all processes of a session that wait. */
export const MAX_WAITING_SESSION_DECISIONS = 8 * MAX_WAITING_DECISIONS;

/** Certificates that are kept for reuse; the one that was used longest ago goes first. */
export const MAX_LEAVES = 256;

/** How long a certificate for a host is valid: as long as the strictest clients accept, and longer than most programs run. */
export const LEAF_DAYS = 90;

/** Age at which a certificate is made anew, so that programs that begin now are done before it ends. */
export const LEAF_RENEWAL_DAYS = 30;

/** How long the authority itself is valid: longer than any server runs. */
export const AUTHORITY_DAYS = 3650;

/** How far the clock of a program may be behind. */
export const BACKDATED_DAYS = 1;

/** Time for the handshake with a web server, and for that with a program. */
export const TLS_HANDSHAKE_MS = 15_000;
