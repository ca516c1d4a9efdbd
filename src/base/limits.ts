/** Longest host of a URL. DNS allows 253 characters; this is the longest with every byte percent-encoded, rounded up. */
export const MAX_URL_HOST_LENGTH = 1024;
