import { type FileHandle, open } from 'node:fs/promises';
import { ELF_TABLE_BYTES } from './limits.ts';

/** Loading information of a program or library. */
interface ElfFacts {
  /** The loader (PT_INTERP) of a program. Null for libraries and static programs. */
  readonly interpreter: string | null;
  /** The name (DT_SONAME) under which a library is loaded. */
  readonly soname: string | null;
}

/** Reads a 64-bit little-endian ELF file. Throws for any other file. */
export async function readElf(path: string): Promise<ElfFacts> {
  const file = await open(path, 'r');
  try {
    const header = await readBytes(file, 0, HEADER_BYTES);
    if (header.toString('latin1', 0, 6) !== ELF64_LITTLE_ENDIAN) {
      throw new Error(`${path} is no 64-bit ELF file`);
    }
    const segments = await readSegments(file, header);
    const interpreter = segments.find(({ type }) => type === PT_INTERP);
    return {
      interpreter: interpreter ? textAt(await readSegment(file, interpreter), 0) : null,
      soname: await readSoname(file, segments),
    };
  } finally {
    await file.close();
  }
}

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly size: number;
}

async function readSegments(file: FileHandle, header: Buffer): Promise<Segment[]> {
  const entryBytes = header.readUInt16LE(54);
  const count = header.readUInt16LE(56);
  const table = await readBytes(file, Number(header.readBigUInt64LE(32)), entryBytes * count);
  return Array.from({ length: count }, (_, index) => {
    const entry = table.subarray(index * entryBytes);
    return {
      type: entry.readUInt32LE(0),
      offset: Number(entry.readBigUInt64LE(8)),
      address: Number(entry.readBigUInt64LE(16)),
      size: Number(entry.readBigUInt64LE(32)),
    };
  });
}

async function readSoname(file: FileHandle, segments: readonly Segment[]): Promise<string | null> {
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC);
  if (dynamic === undefined) return null;
  const table = await readSegment(file, dynamic);
  const values = new Map<number, number>();
  for (let at = 0; at + 16 <= table.length; at += 16) {
    values.set(Number(table.readBigUInt64LE(at)), Number(table.readBigUInt64LE(at + 8)));
  }
  const [name, strings] = [values.get(DT_SONAME), values.get(DT_STRTAB)];
  if (name === undefined || strings === undefined) return null;
  const loaded = segments.find(
    ({ type, address, size }) => type === PT_LOAD && strings >= address && strings < address + size,
  );
  if (loaded === undefined) return null;
  const offset = strings - loaded.address + loaded.offset + name;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(NAME_BYTES), 0, NAME_BYTES, offset);
  return textAt(buffer.subarray(0, bytesRead), 0);
}

async function readSegment(file: FileHandle, { offset, size }: Segment): Promise<Buffer> {
  return await readBytes(file, offset, size);
}

async function readBytes(file: FileHandle, position: number, length: number): Promise<Buffer> {
  if (length > ELF_TABLE_BYTES) throw new Error('a table of an ELF file is too long');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead < length) throw new Error('an ELF file is too short');
  return buffer;
}

function textAt(bytes: Buffer, start: number): string {
  const end = bytes.indexOf(0, start);
  return bytes.toString('latin1', start, end < 0 ? bytes.length : end);
}

const ELF64_LITTLE_ENDIAN = '\x7fELF\x02\x01';
const HEADER_BYTES = 64;
const NAME_BYTES = 256;
const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_INTERP = 3;
const DT_STRTAB = 5;
const DT_SONAME = 14;
