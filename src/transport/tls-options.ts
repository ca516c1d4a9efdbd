/** TLS options of a client. Certificates and keys are PEM texts. */
export interface TlsOptions {
  /** Certificate authorities to trust instead of Node's own. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[];
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** Default true. False accepts any server, including an impostor. */
  readonly rejectUnauthorized?: boolean;
}
