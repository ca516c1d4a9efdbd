/**
 * What went wrong between the ends of a relay: a key that is none, a handshake or a record that is not what the peer must have sent, a
 * peer that refused, one that is gone, or one that takes too long.
 */
export type RelayErrorKind = 'invalidKey' | 'handshake' | 'protocol' | 'refused' | 'lost' | 'timeout';

/** A failure of the relay. Its text never repeats what a peer sent. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly kind: RelayErrorKind;

  constructor(kind: RelayErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}
