/** Failures between the peers of a relay: an invalid key, handshake or record, a refusal, a lost peer, or a timeout. */
type RelayErrorKind = 'invalidKey' | 'handshake' | 'protocol' | 'refused' | 'lost' | 'timeout';

/** A failure of the relay protocol. The message contains no data of the peer, except a printable close reason. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly kind: RelayErrorKind;

  constructor(kind: RelayErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}
