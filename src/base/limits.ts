/**
 * Longest host of a URL. DNS allows 253 characters; this is the longest with every byte percent-encoded, rounded up. It is also
 * longer than any name of a file, because the first name of some `file:` URIs looks like a host.
 */
export const MAX_URL_HOST_LENGTH = 1024;
