/** Required settings of a proxy; this one allows nothing. */
export const CLOSED_PROXY = {
  enabled: true,
  enableSocks5: true,
  enableSocks5Udp: false,
  allowUpstreamProxy: false,
  dangerouslyAllowAllUnixSockets: false,
  mode: 'full',
  allowLocalBinding: false,
} as const;
