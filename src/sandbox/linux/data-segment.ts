import type { NativePath } from '../../files/native-path.ts';
import { DATA_ADDRESS } from './executable.ts';
import { MOUNT_ENTRY_BYTES, REPORT_ENTRY_BYTES } from './machine-code.ts';

/** The message and exit code when a call fails with `errno`. 0 matches any errno and comes last. */
export interface Failure {
  readonly errno: number;
  readonly exitCode: number;
  readonly text: string;
}

/** A path that must be a mount point, and the expected file. Null accepts any file. */
export interface ExpectedMount {
  readonly path: NativePath;
  readonly file: { readonly device: bigint; readonly inode: bigint } | null;
}

/** The constants of the machine code. Each method adds one and returns its address. */
export class DataSegment {
  readonly #pieces: Buffer[] = [];
  #end = DATA_ADDRESS;

  /** The bytes of the segment. The length is a multiple of the pointer size. */
  content(): Buffer {
    this.#add(NOTHING);
    return Buffer.concat(this.#pieces);
  }

  bytes(bytes: Buffer): number {
    return this.#add(bytes);
  }

  string(text: string): number {
    return this.#add(Buffer.from(`${text}\0`));
  }

  path(path: NativePath): number {
    return this.#add(Buffer.from(`${path}\0`, 'latin1'));
  }

  /** A `char *[]` that ends with NULL. */
  stringTable(strings: readonly string[]): number {
    let address = this.#add(Buffer.from(strings.map((text) => `${text}\0`).join('')));
    const table = Buffer.alloc(POINTER_BYTES * (strings.length + 1));
    for (const [index, text] of strings.entries()) {
      table.writeUInt32LE(address, POINTER_BYTES * index);
      address += Buffer.byteLength(text) + 1;
    }
    return this.#add(table);
  }

  loopbackAddress(port: number): number {
    const address = Buffer.alloc(LOOPBACK_ADDRESS_BYTES);
    address.writeUInt16LE(AF_INET, 0);
    address.writeUInt16BE(port, 2);
    address.set([127, 0, 0, 1], 4);
    return this.#add(address);
  }

  /** A `struct msghdr` of one byte that carries descriptors. */
  descriptorMessage(descriptors: readonly number[]): number {
    const control = Buffer.alloc(CONTROL_HEADER_BYTES + 4 * descriptors.length);
    control.writeUInt32LE(control.length, 0);
    control.writeUInt32LE(SOL_SOCKET, 8);
    control.writeUInt32LE(SCM_RIGHTS, 12);
    for (const [index, descriptor] of descriptors.entries()) {
      control.writeUInt32LE(descriptor, CONTROL_HEADER_BYTES + 4 * index);
    }
    const vector = Buffer.alloc(2 * POINTER_BYTES);
    vector.writeUInt32LE(this.#add(Buffer.alloc(1)), 0);
    vector.writeUInt32LE(1, POINTER_BYTES);
    const message = Buffer.alloc(MESSAGE_BYTES);
    message.writeUInt32LE(this.#add(vector), 16);
    message.writeUInt32LE(1, 24);
    message.writeUInt32LE(this.#add(control), 32);
    message.writeUInt32LE(control.length, 40);
    return this.#add(message);
  }

  mountTable(mounts: readonly ExpectedMount[]): number {
    const table = Buffer.alloc(MOUNT_ENTRY_BYTES * (mounts.length + 1));
    for (const [index, { path, file }] of mounts.entries()) {
      const at = MOUNT_ENTRY_BYTES * index;
      table.writeUInt32LE(this.path(path), at);
      if (file === null) continue;
      table.writeBigUInt64LE(file.inode, at + 8);
      table.writeUInt32LE(majorOf(file.device), at + 16);
      table.writeUInt32LE(minorOf(file.device), at + 20);
    }
    return this.#add(table);
  }

  filterProgram(filter: Buffer): number {
    const program = Buffer.alloc(FILTER_PROGRAM_BYTES);
    program.writeUInt16LE(filter.length / FILTER_INSTRUCTION_BYTES, 0);
    program.writeUInt32LE(this.#add(filter), 8);
    return this.#add(program);
  }

  reportTable(failures: readonly Failure[]): number {
    const table = Buffer.alloc(REPORT_ENTRY_BYTES * failures.length);
    for (const [index, { errno, exitCode, text }] of failures.entries()) {
      const bytes = Buffer.from(text);
      const at = REPORT_ENTRY_BYTES * index;
      table.writeUInt32LE(errno, at);
      table.writeUInt32LE(exitCode, at + 4);
      table.writeUInt32LE(this.#add(bytes), at + 8);
      table.writeUInt32LE(bytes.length, at + 16);
    }
    return this.#add(table);
  }

  /** Aligns every address to the pointer size, which is faster on arm64. */
  #add(bytes: Buffer): number {
    const padding = -this.#end & (POINTER_BYTES - 1);
    this.#pieces.push(Buffer.alloc(padding), bytes);
    const address = this.#end + padding;
    this.#end = address + bytes.length;
    return address;
  }
}

const NOTHING = Buffer.alloc(0);
const AF_INET = 2;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
/** `struct sockaddr_in`. */
export const LOOPBACK_ADDRESS_BYTES = 16;
/** `struct msghdr`, and `struct cmsghdr` before its content. */
const MESSAGE_BYTES = 56;
const CONTROL_HEADER_BYTES = 16;
const POINTER_BYTES = 8;
/** `struct sock_fprog`: the number of instructions, and their address after padding. */
const FILTER_PROGRAM_BYTES = 16;
const FILTER_INSTRUCTION_BYTES = 8;

/** Splits a device number as `makedev` in glibc combines it. */
function majorOf(device: bigint): number {
  return Number(((device >> 8n) & 0xfffn) | ((device >> 32n) & 0xfffff000n));
}

function minorOf(device: bigint): number {
  return Number((device & 0xffn) | ((device >> 12n) & 0xffffff00n));
}
