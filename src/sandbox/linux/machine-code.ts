import { type Architecture, type SyscallName, syscallNumber } from './syscalls.ts';

/** Assembles machine code for system calls with constant arguments. */
export interface MachineCode {
  /** Arguments are unsigned 32-bit numbers. */
  call(name: SyscallName, ...args: readonly number[]): void;
  /** The same with the result of the last call as the first argument. */
  callWithResult(name: SyscallName, ...more: readonly number[]): void;
  /** Runs the code that `onFailure` appends when the last call has not returned zero. */
  unlessZero(onFailure: () => void): void;
  /**
   * Interprets the result of the last call as a negated errno and looks it up in the table at `table`. Prints the text of the entry to
   * stderr and exits with its code. For the format of an entry see {@link REPORT_ENTRY_BYTES}.
   */
  report(table: number): void;
  /**
   * Checks that each path in the table at `table` is a mount point and the expected file. If not, runs the code that `onFailure` appends,
   * which must exit. For the format of an entry see {@link MOUNT_ENTRY_BYTES}. If the kernel does not report mount points, the check for
   * them passes unless `certain` is set.
   */
  checkMounts(table: number, certain: boolean, onFailure: () => void): void;
  bytes(): Buffer;
}

/**
 * An entry: address of the path (0 ends the table), inode number (0 matches any), and major and minor device number, in 8, 8, 4 and 4
 * bytes.
 */
export const MOUNT_ENTRY_BYTES = 24;

/** An entry: errno (0 matches any and ends the table) and exit code in 4 bytes each, address and length of the text in 8 bytes each. */
export const REPORT_ENTRY_BYTES = 24;

export function machineCode(architecture: Architecture): MachineCode {
  return architecture === 'x64' ? new X64Code() : new Arm64Code();
}

const STDERR = 2;
/** AT_FDCWD as an unsigned number. */
export const WORKING_DIRECTORY = 0xffffff9c;
const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_INO = 0x100;
/** STATX_ATTR_MOUNT_ROOT, the bit that marks a mount point. A kernel that does not support it clears it in the attribute mask. */
const MOUNT_ROOT_BIT = 13;
/** The space below the stack pointer for a `struct statx`, which has 256 bytes. */
const STATX_STACK_OFFSET = 512;
/** Offsets in `struct statx`. */
const ATTRIBUTES = 8;
const INODE = 32;
const KNOWN_ATTRIBUTES = 56;
const DEVICE = 136;

class X64Code implements MachineCode {
  readonly #code: number[] = [];

  call(name: SyscallName, ...args: readonly number[]): void {
    this.#arguments(args, 0);
    this.#invoke(name);
  }

  callWithResult(name: SyscallName, ...more: readonly number[]): void {
    // mov edi, eax
    this.#code.push(0x89, 0xc7);
    this.#arguments(more, 1);
    this.#invoke(name);
  }

  unlessZero(onFailure: () => void): void {
    // test eax, eax; jz over what follows
    this.#code.push(0x85, 0xc0, 0x74, 0);
    const from = this.#code.length;
    onFailure();
    this.#code[from - 1] = this.#code.length - from;
  }

  report(table: number): void {
    // neg eax; mov ebx, table
    this.#code.push(0xf7, 0xd8, 0xbb, ...littleEndian(table));
    // next: mov ecx, [rbx]; test ecx, ecx; jz found; cmp ecx, eax; je found; add ebx, 24; jmp next
    this.#code.push(0x8b, 0x0b, 0x85, 0xc9, 0x74, 9, 0x39, 0xc1, 0x74, 5, 0x83, 0xc3, REPORT_ENTRY_BYTES);
    this.#code.push(0xeb, 0xf1);
    // found: mov rsi, [rbx+8]; mov rdx, [rbx+16]; mov edi, 2
    this.#code.push(0x48, 0x8b, 0x73, 8, 0x48, 0x8b, 0x53, 16, 0xbf, ...littleEndian(STDERR));
    this.#invoke('write');
    // mov edi, [rbx+4]
    this.#code.push(0x8b, 0x7b, 4);
    this.#invoke('exit_group');
  }

  checkMounts(table: number, certain: boolean, onFailure: () => void): void {
    const failures: number[] = [];
    const failIf = (jump: number) => failures.push(this.#code.push(jump, 0));
    // mov ebx, table
    this.#code.push(0xbb, ...littleEndian(table));
    // next: mov rsi, [rbx]; test rsi, rsi; jz done
    const next = this.#code.push(0x48, 0x8b, 0x33, 0x48, 0x85, 0xf6, 0x0f, 0x84, 0, 0, 0, 0) - 12;
    const toDone = this.#code.length;
    // mov edi, …; mov edx, …; mov r10d, …
    this.#code.push(0xbf, ...littleEndian(WORKING_DIRECTORY), 0xba, ...littleEndian(AT_SYMLINK_NOFOLLOW));
    this.#code.push(0x41, 0xba, ...littleEndian(STATX_INO));
    // lea r8, [rsp-…]
    this.#code.push(0x4c, 0x8d, 0x84, 0x24, ...littleEndian(-STATX_STACK_OFFSET));
    this.#invoke('statx');
    // test eax, eax; jnz fail
    this.#code.push(0x85, 0xc0);
    failIf(0x75);
    // mov ecx, [r8+…], or: or ecx, -1
    this.#code.push(...(certain ? [0x83, 0xc9, 0xff] : [0x41, 0x8b, 0x48, KNOWN_ATTRIBUTES]));
    // mov edx, [r8+…]; not edx; and ecx, edx; test ecx, …; jnz fail
    this.#code.push(0x41, 0x8b, 0x50, ATTRIBUTES);
    this.#code.push(0xf7, 0xd2, 0x21, 0xd1, 0xf7, 0xc1, ...littleEndian(1 << MOUNT_ROOT_BIT));
    failIf(0x75);
    // mov rcx, [rbx+8]; test rcx, rcx; jz advance; cmp rcx, [r8+…]; jne fail
    const toAdvance = this.#code.push(0x48, 0x8b, 0x4b, 8, 0x48, 0x85, 0xc9, 0x74, 0);
    this.#code.push(0x49, 0x3b, 0x48, INODE);
    failIf(0x75);
    // mov rcx, [rbx+16]; cmp rcx, [r8+…]; jne fail
    this.#code.push(0x48, 0x8b, 0x4b, 16, 0x49, 0x3b, 0x88, ...littleEndian(DEVICE));
    failIf(0x75);
    this.#code[toAdvance - 1] = this.#code.length - toAdvance;
    // advance: add ebx, 24; jmp next
    const back = this.#code.push(0x83, 0xc3, MOUNT_ENTRY_BYTES, 0xeb, 0);
    this.#code[back - 1] = (next - back) & 0xff;
    for (const from of failures) this.#code[from - 1] = this.#code.length - from;
    onFailure();
    this.#code.splice(toDone - 4, 4, ...littleEndian(this.#code.length - toDone));
  }

  bytes(): Buffer {
    return Buffer.from(this.#code);
  }

  #arguments(values: readonly number[], from: number): void {
    for (const [index, value] of values.entries()) {
      this.#code.push(...X64_MOVE_TO_ARGUMENT[from + index]!, ...littleEndian(value));
    }
  }

  #invoke(name: SyscallName): void {
    // mov eax, number; syscall
    this.#code.push(0xb8, ...littleEndian(syscallNumber(name, 'x64')), 0x0f, 0x05);
  }
}

/** `mov` of a 32-bit constant to edi, esi, edx, r10d and r8d. */
const X64_MOVE_TO_ARGUMENT = [[0xbf], [0xbe], [0xba], [0x41, 0xba], [0x41, 0xb8]] as const;

class Arm64Code implements MachineCode {
  readonly #code: number[] = [];

  call(name: SyscallName, ...args: readonly number[]): void {
    for (const [register, value] of args.entries()) this.#move(register, value);
    this.#invoke(name);
  }

  /** The result is already in the register of the first argument. */
  callWithResult(name: SyscallName, ...more: readonly number[]): void {
    for (const [index, value] of more.entries()) this.#move(1 + index, value);
    this.#invoke(name);
  }

  unlessZero(onFailure: () => void): void {
    // cbz w0, over what follows
    const at = this.#code.push(0) - 1;
    onFailure();
    this.#code[at] = 0x34000000 | ((this.#code.length - at) << 5);
  }

  report(table: number): void {
    // neg w9, w0
    this.#code.push(0x4b0003e9);
    this.#move(10, table);
    this.#code.push(
      0xb940014b, // next: ldr w11, [x10]
      0x340000ab, // cbz w11, found
      0x6b09017f, // cmp w11, w9
      0x54000060, // b.eq found
      0x9100614a, // add x10, x10, #24
      0x17fffffb, // b next
      0xf9400541, // found: ldr x1, [x10, #8]
      0xf9400942, // ldr x2, [x10, #16]
    );
    this.#move(0, STDERR);
    this.#invoke('write');
    // ldr w0, [x10, #4]
    this.#code.push(0xb9400540);
    this.#invoke('exit_group');
  }

  checkMounts(table: number, certain: boolean, onFailure: () => void): void {
    const failures: number[] = [];
    const failIf = (branch: number) => failures.push(this.#code.push(branch) - 1);
    this.#move(9, table);
    const next = this.#code.length;
    this.#code.push(0xf9400121); // next: ldr x1, [x9]
    const toDone = this.#code.push(0) - 1; // cbz x1, done
    this.#move(0, WORKING_DIRECTORY);
    this.#move(2, AT_SYMLINK_NOFOLLOW);
    this.#move(3, STATX_INO);
    this.#code.push(0xd10003e4 | (STATX_STACK_OFFSET << 10)); // sub x4, sp, #…
    this.#invoke('statx');
    failIf(0x35000000); // cbnz w0, fail
    if (certain) this.#move(5, 0xffffffff);
    else this.#code.push(0xb9400085 | ((KNOWN_ATTRIBUTES / 4) << 10)); // ldr w5, [x4, #…]
    this.#code.push(
      0xb9400086 | ((ATTRIBUTES / 4) << 10), // ldr w6, [x4, #…]
      0x0a2600a5, // bic w5, w5, w6
    );
    failIf(0x37000005 | (MOUNT_ROOT_BIT << 19)); // tbnz w5, #…, fail
    this.#code.push(0xf9400525); // ldr x5, [x9, #8]
    const toAdvance = this.#code.push(0) - 1; // cbz x5, advance
    // ldr x6, [x4, #…]; cmp x5, x6; b.ne fail
    this.#code.push(0xf9400086 | ((INODE / 8) << 10), 0xeb0600bf);
    failIf(0x54000001);
    // ldr x5, [x9, #16]; ldr x6, [x4, #…]; cmp x5, x6; b.ne fail
    this.#code.push(0xf9400925, 0xf9400086 | ((DEVICE / 8) << 10), 0xeb0600bf);
    failIf(0x54000001);
    this.#code[toAdvance] = 0xb4000005 | ((this.#code.length - toAdvance) << 5);
    this.#code.push(0x91006129); // advance: add x9, x9, #24
    this.#code.push(0x14000000 | ((next - this.#code.length) & 0x3ffffff)); // b next
    // All three kinds of branches hold the offset at the same bit position. One has fewer bits, which are enough.
    for (const from of failures) this.#code[from]! |= (this.#code.length - from) << 5;
    onFailure();
    this.#code[toDone] = 0xb4000001 | ((this.#code.length - toDone) << 5);
  }

  bytes(): Buffer {
    return Buffer.from(this.#code.flatMap(littleEndian));
  }

  #invoke(name: SyscallName): void {
    this.#move(8, syscallNumber(name, 'arm64'));
    // svc #0
    this.#code.push(0xd4000001);
  }

  /** movz and movk of the two halves. */
  #move(register: number, value: number): void {
    this.#code.push(0x52800000 | ((value & 0xffff) << 5) | register);
    this.#code.push(0x72a00000 | ((value >>> 16) << 5) | register);
  }
}

function littleEndian(value: number): [number, number, number, number] {
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24];
}
