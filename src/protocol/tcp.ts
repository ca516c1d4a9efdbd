import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Base64, Base64Text, doc, Identifier, Name, Uint16Positive, Uint64 } from './scalars.ts';
import { Ref } from './sharing.ts';

const StreamId = once(() =>
  doc(Identifier(), 'Chosen by the client. Unique among the TCP streams of its connection.'),
);

export const TcpConnectParams = once(() =>
  z.object({
    streamId: StreamId(),
    host: doc(
      z._default(Name(), '127.0.0.1'),
      'A host name or address, seen from the server. Only its loopback addresses, unless the server allows others.',
    ),
    port: Uint16Positive(),
    windowBytes: doc(
      z.optional(Uint64()),
      'Bytes that the server may send before `tcp/consumed` reports them as used. Default: 1 MiB. One chunk may exceed it.',
    ),
  }),
);
export const TcpConnectResult = once(() =>
  z.object({ address: doc(Name(), 'The address that the server is connected to.'), port: z.number() }),
);

export const TcpDataParams = once(() =>
  z.object({ streamId: StreamId(), chunk: doc(Base64Text(), 'Bytes for the peer.') }),
);
export const TcpSubjectParams = once(() => z.object({ streamId: StreamId() }));
export const TcpConsumedParams = once(() =>
  z.object({ streamId: StreamId(), bytes: doc(Uint64(), 'Bytes used since the last report.') }),
);

export const TcpReceivedParams = once(() => z.object({ streamId: StreamId(), chunk: Base64() }));
export const TcpClosedParams = once(() =>
  z.object({
    streamId: StreamId(),
    error: doc(z.nullable(z.string()), 'Why the stream broke; null when both sides ended it.'),
  }),
);

const WatchId = once(() =>
  doc(Identifier(), 'Chosen by the client. Unique among the watches of its connection.'),
);

const ListeningPort = once(() =>
  z.object({
    port: z.number(),
    address: doc(Name(), 'The address that the program listens on.'),
    ref: doc(Ref(), 'The process whose program, or a descendant of it, listens.'),
    reachable: doc(
      z.boolean(),
      'Whether `tcp/connect` can reach the port. It cannot where the program has its own network.',
    ),
  }),
);

export const PortsWatchParams = once(() => z.object({ watchId: WatchId() }));
export const PortsWatchResult = once(() => z.object({ ports: z.array(ListeningPort()) }));
export const PortsChangedParams = once(() =>
  z.object({ watchId: WatchId(), ports: doc(z.array(ListeningPort()), 'All ports, at most 1,024.') }),
);
