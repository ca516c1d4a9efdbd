import type { Architecture } from './syscalls.ts';

const FILE_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const HEADER_BYTES = FILE_HEADER_BYTES + 2 * PROGRAM_HEADER_BYTES;
/** The load address: a multiple of every page size in use, far from the addresses that the kernel chooses. */
const LOAD_ADDRESS = 0x400000;
const LOAD_ALIGNMENT = 0x10000;

/** The address of the data of an {@link executable}. */
export const DATA_ADDRESS = LOAD_ADDRESS + HEADER_BYTES;

/**
 * Builds an ELF file with one readable and executable segment: the headers, the data, and then the code. Execution starts at the first
 * instruction. The length of the data must be a multiple of the instruction size.
 */
export function executable(architecture: Architecture, data: Buffer, code: Buffer): Buffer {
  const file = Buffer.concat([Buffer.alloc(HEADER_BYTES), data, code]);
  // 64 bits, little endian, version 1.
  file.write('\x7fELF\x02\x01\x01', 0, 'latin1');
  file.writeUInt16LE(ET_EXEC, 16);
  file.writeUInt16LE(ELF_MACHINE[architecture], 18);
  file.writeUInt32LE(1, 20);
  file.writeUInt32LE(DATA_ADDRESS + data.length, 24);
  file.writeUInt32LE(FILE_HEADER_BYTES, 32);
  file.writeUInt16LE(FILE_HEADER_BYTES, 52);
  file.writeUInt16LE(PROGRAM_HEADER_BYTES, 54);
  file.writeUInt16LE(2, 56);
  writeProgramHeader(file, FILE_HEADER_BYTES, {
    type: PT_LOAD,
    flags: READ | EXECUTE,
    address: LOAD_ADDRESS,
    bytes: file.length,
    alignment: LOAD_ALIGNMENT,
  });
  // Without this the stack would be executable.
  writeProgramHeader(file, FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES, {
    type: PT_GNU_STACK,
    flags: READ | WRITE,
    address: 0,
    bytes: 0,
    alignment: 16,
  });
  return file;
}

interface ProgramHeader {
  readonly type: number;
  readonly flags: number;
  readonly address: number;
  readonly bytes: number;
  readonly alignment: number;
}

function writeProgramHeader(file: Buffer, at: number, header: ProgramHeader): void {
  file.writeUInt32LE(header.type, at);
  file.writeUInt32LE(header.flags, at + 4);
  file.writeUInt32LE(header.address, at + 16);
  file.writeUInt32LE(header.address, at + 24);
  file.writeUInt32LE(header.bytes, at + 32);
  file.writeUInt32LE(header.bytes, at + 40);
  file.writeUInt32LE(header.alignment, at + 48);
}

const ET_EXEC = 2;
/** EM_X86_64 and EM_AARCH64. */
const ELF_MACHINE: Readonly<Record<Architecture, number>> = { x64: 62, arm64: 183 };
const PT_LOAD = 1;
const PT_GNU_STACK = 0x6474e551;
const EXECUTE = 1;
const WRITE = 2;
const READ = 4;
