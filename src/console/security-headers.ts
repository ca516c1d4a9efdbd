type Headers = Readonly<Record<string, string>>;

/** Headers of every answer of the console. None of them may be stored, framed, guessed at or shared with other sites. */
export const SECURITY_HEADERS: Headers = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy':
    'accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/**
 * The policy of the page. It loads nothing from other hosts, and has no inline scripts and styles. 'wasm-unsafe-eval' is for the player of
 * recordings, which draws with WebAssembly in the page: a worker with a policy of its own would not help. `socketOrigins` are the console's own, for browsers in which 'self' does not cover websockets.
 */
export function pagePolicy(socketOrigins: readonly string[]): Headers {
  const directives = [
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    `connect-src ${["'self'", ...socketOrigins].join(' ')}`,
    "manifest-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ];
  return { 'content-security-policy': directives.join('; ') };
}
