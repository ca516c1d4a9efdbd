import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable } from 'node:stream';

export function sshMissing(): string | null;
export function createSshKeys(folder: string): void;
export function spawnSshd(
  folder: string,
  port: number | string,
  lines: readonly string[],
): ChildProcessByStdio<null, null, Readable>;
