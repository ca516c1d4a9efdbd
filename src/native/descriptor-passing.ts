import { closeSync } from 'node:fs';
import { endianness } from 'node:os';
import { koffi } from './koffi.ts';

/** Receives open descriptors that another process sends over a unix socket. */
export interface DescriptorPassing {
  /** Two connected sockets, both closed on exec. */
  createPair(): { readonly ours: number; readonly theirs: number };
  /**
   * The descriptors that came with the next byte, at most `max`, closed on exec; null while nothing has arrived. Throws when the
   * peer closed the socket without sending, or sent something else.
   */
  receive(socket: number, max: number): number[] | null;
}

/** Loads the calls. Throws on a system whose structures differ from 64-bit little-endian Linux. */
export function loadDescriptorPassing(): DescriptorPassing {
  if (endianness() !== 'LE') throw new Error('descriptors can only be received on little-endian systems');
  const library = koffi.load('libc.so.6');
  const socketpair = library.func('int socketpair(int domain, int type, int protocol, void *sockets)');
  const recvmsg = library.func('long recvmsg(int socket, void *message, int flags)');
  return {
    createPair() {
      const sockets = new Int32Array(2);
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) !== 0) throw failure('socketpair');
      return { ours: sockets[0]!, theirs: sockets[1]! };
    },

    receive(socket, max) {
      const payload = Buffer.alloc(1);
      const control = Buffer.alloc(CONTROL_HEADER_BYTES + roundUp(max * 4));
      const vector = new BigUint64Array([koffi.address(payload), BigInt(payload.length)]);
      const message = new BigUint64Array([
        0n,
        0n,
        koffi.address(Buffer.from(vector.buffer)),
        1n,
        koffi.address(control),
        BigInt(control.length),
        0n,
      ]);
      const received = Number(recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
      if (received === -1 && WOULD_BLOCK.has(koffi.errno())) return null;
      if (received === -1) throw failure('recvmsg');
      const descriptors = descriptorsIn(control.subarray(0, Number(message[CONTROL_LENGTH_INDEX])));
      if (received === 1 && descriptors.length > 0) return descriptors;
      for (const descriptor of descriptors) closeSync(descriptor);
      throw new Error(received === 0 ? 'the sender has ended' : 'the sender sent no descriptor');
    },
  };
}

/** One control message: its length in 64 bits, its level and type in 32 bits each, then the descriptors. */
function descriptorsIn(control: Buffer): number[] {
  if (control.length < CONTROL_HEADER_BYTES) return [];
  const isRights = control.readInt32LE(8) === SOL_SOCKET && control.readInt32LE(12) === SCM_RIGHTS;
  const end = Math.min(control.length, Number(control.readBigUInt64LE(0)));
  const descriptors: number[] = [];
  for (let at = CONTROL_HEADER_BYTES; isRights && at + 4 <= end; at += 4)
    descriptors.push(control.readInt32LE(at));
  return descriptors;
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}

function failure(call: string): Error {
  return new Error(`${call} failed with errno ${koffi.errno()}`);
}

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_DONTWAIT = 0x40;
const MSG_CMSG_CLOEXEC = 0x40000000;
/** EAGAIN and EINTR. */
const WOULD_BLOCK = new Set([11, 4]);
const CONTROL_HEADER_BYTES = 16;
/** `msg_controllen` in a `struct msghdr`, counted in 64-bit words. */
const CONTROL_LENGTH_INDEX = 5;
