import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { RelayError } from '../errors.ts';
import { MAX_FRAME_BYTES } from '../limits.ts';
import { hasFrameFields } from './frame-fields.ts';
import { type RelayMessageFrame, RelayMessageFrameSchema } from './generated/relay_pb.ts';
import { encodeRecord } from './record-frame.ts';

/** Position of a record in a message that is split into several segments. */
export interface Segment {
  readonly index: number;
  readonly count: number;
}

/** A record of a stream. */
export interface DataBody {
  readonly kind: 'data';
  readonly seq: number;
  readonly payload: Uint8Array;
  /** Undefined for index 0 of 1, which is all that the reference uses. A received segment is not validated yet. */
  readonly segment?: Segment | undefined;
}

/** The body of a frame. */
export type FrameBody =
  | DataBody
  | { readonly kind: 'ack' }
  | { readonly kind: 'resume'; readonly nextSeq: number }
  | { readonly kind: 'reset'; readonly reason: string }
  | { readonly kind: 'heartbeat' }
  | { readonly kind: 'handshake'; readonly payload: Uint8Array };

/** One frame of a virtual stream. The wire format omits an `ack` and `ackBits` of 0. */
export interface RelayFrame {
  readonly streamId: string;
  readonly ack?: number;
  readonly ackBits?: number;
  readonly body: FrameBody;
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
}

/** A received frame. Absent acks are 0. */
export type ReceivedFrame = RelayFrame & { readonly ack: number; readonly ackBits: number };

export function encodeFrame(frame: RelayFrame): Uint8Array {
  const { streamId, ack = 0, ackBits = 0, body, traceparent, tracestate } = frame;
  if (body.kind === 'data' && traceparent === undefined && tracestate === undefined) {
    return encodeRecord({ streamId, ack, ackBits, body });
  }
  return toBinary(
    RelayMessageFrameSchema,
    create(RelayMessageFrameSchema, {
      version: VERSION,
      streamId,
      ack,
      ackBits,
      body: wireBody(body),
      ...(traceparent !== undefined && { traceparent }),
      ...(tracestate !== undefined && { tracestate }),
    }),
  );
}

/** Decodes a frame. Payloads are views of `bytes`. Throws RelayError for an invalid frame. */
export function decodeFrame(bytes: Uint8Array): ReceivedFrame {
  if (bytes.length > MAX_FRAME_BYTES) throw invalid('it is too large');
  if (!hasFrameFields(bytes)) throw invalid('its fields are invalid');
  let message: RelayMessageFrame;
  try {
    message = fromBinary(RelayMessageFrameSchema, bytes, { readUnknownFields: false });
  } catch {
    throw invalid('it is not a relay frame');
  }
  const { version, streamId, ack, ackBits, traceparent, tracestate } = message;
  if (version !== VERSION) throw invalid('its version is unknown');
  if (streamId.trim() === '') throw invalid('it has no stream id');
  return { streamId, ack, ackBits, body: readBody(message.body), traceparent, tracestate };
}

const VERSION = 1;

type WireBody = NonNullable<MessageInitShape<typeof RelayMessageFrameSchema>['body']>;

/** The segment of a record that is not split. */
const UNSPLIT: Segment = { index: 0, count: 1 };

function wireBody(body: FrameBody): WireBody {
  switch (body.kind) {
    case 'data': {
      const { seq, payload, segment: { index: segmentIndex, count: segmentCount } = UNSPLIT } = body;
      return { case: 'data', value: { seq, segmentIndex, segmentCount, payload } };
    }
    case 'ack':
      return { case: 'ackFrame', value: {} };
    case 'resume':
      return { case: 'resume', value: { nextSeq: body.nextSeq } };
    case 'reset':
      return { case: 'reset', value: { reason: body.reason } };
    case 'heartbeat':
      return { case: 'heartbeat', value: {} };
    case 'handshake':
      return { case: 'handshake', value: { payload: body.payload } };
  }
}

function readBody(body: RelayMessageFrame['body']): FrameBody {
  switch (body.case) {
    case 'data': {
      const { seq, segmentIndex, segmentCount, payload } = body.value;
      const record = { kind: 'data', seq, payload: nonEmpty(payload) } as const;
      if (segmentIndex === UNSPLIT.index && segmentCount === UNSPLIT.count) return record;
      return { ...record, segment: { index: segmentIndex, count: segmentCount } };
    }
    case 'ackFrame':
      return { kind: 'ack' };
    case 'resume':
      return { kind: 'resume', nextSeq: body.value.nextSeq };
    case 'reset':
      if (body.value.reason === '') throw invalid('its reset has no reason');
      return { kind: 'reset', reason: body.value.reason };
    case 'heartbeat':
      return { kind: 'heartbeat' };
    case 'handshake':
      return { kind: 'handshake', payload: nonEmpty(body.value.payload) };
    case undefined:
      throw invalid('it has no body');
  }
}

function nonEmpty(payload: Uint8Array): Uint8Array {
  if (payload.length === 0) throw invalid('its payload is empty');
  return payload;
}

function invalid(reason: string): RelayError {
  return new RelayError('protocol', `invalid frame: ${reason}`);
}
