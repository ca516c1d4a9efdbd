/** What every request for a proxy has to say: one that allows nothing. */
export const CLOSED_PROXY = {
  enabled: true,
  enableSocks5: true,
  enableSocks5Udp: false,
  allowUpstreamProxy: false,
  dangerouslyAllowAllUnixSockets: false,
  mode: 'full',
  allowLocalBinding: false,
} as const;
