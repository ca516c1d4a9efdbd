import type { Terminal } from '@xterm/xterm';

/** Longest address of a link: as in other terminals. */
const MAX_LINK_LENGTH = 2083;
/** Memory for the links of one terminal. */
const MAX_LINK_BYTES = 64 * 1024 * 1024;
/** What a link takes besides its address. */
const BYTES_PER_LINK = 256;

/**
 * Shows links (OSC 8) as plain text when their address is too long, and when there were too many. The library keeps each link as long as
 * the line that it was in, also when other text has replaced it, so programs that draw the same lines again and again add more and more.
 */
export function limitLinks(terminal: Pick<Terminal, 'parser'>): void {
  let bytes = 0;
  terminal.parser.registerOscHandler(8, (data) => {
    // The end of a link has no address.
    if (data.indexOf(';') === data.length - 1) return false;
    if (data.length > MAX_LINK_LENGTH || bytes > MAX_LINK_BYTES) return true;
    bytes += data.length + BYTES_PER_LINK;
    return false;
  });
}
