import { closeSync, openSync, readlinkSync, readSync } from 'node:fs';
import { endianness } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PORT_SCAN_PARENTS, PORT_SCAN_SLICE_MS, PORT_TABLE_READ_BYTES } from '../limits.ts';
import type { ProcessTree } from './kill-tree.ts';
import { listPids, namesIn, readProcess } from './process-table.ts';

/** A TCP port that a program, or a descendant of it, listens on. */
export interface ListeningPort {
  readonly port: number;
  readonly address: string;
  /** Whether the program has a network namespace of its own, so that the server cannot connect to the port. */
  readonly ownNetwork: boolean;
}

/**
 * Finds the listening TCP ports of process trees in /proc; see proc_pid_net(5). It opens the descriptors of processes only when a new
 * listening socket has appeared, so that repeated scans cost little. It works in slices and does not block the event loop. Scans must
 * not overlap.
 */
export class ListeningPorts {
  readonly #readTag: (pid: number) => bigint | null;
  /** The tree of each listening socket, by inode; null for a socket of another program. */
  readonly #trees = new Map<string, ProcessTree | null>();
  /** Number of scans that opened the descriptors of processes. */
  descriptorScans = 0;

  constructor(readTag: (pid: number) => bigint | null) {
    this.#readTag = readTag;
  }

  /** The ports of each tree that has any. */
  async scan(trees: Iterable<ProcessTree>): Promise<Map<ProcessTree, ListeningPort[]>> {
    const slice = new Slice();
    const wanted = [...trees];
    // Before the processes are listed: whatever owns a listed socket exists already.
    const sockets = readTable('self', false);
    const pids = await this.#pidsOf(wanted, slice);
    await addOtherNamespaces(pids, sockets, slice);
    await this.#attribute(sockets, pids, slice);
    const found = new Map<ProcessTree, ListeningPort[]>(wanted.map((tree) => [tree, []]));
    for (const [inode, socket] of sockets) {
      const tree = this.#trees.get(inode);
      const ports = tree == null ? undefined : found.get(tree);
      const isListed = ports?.some((port) => port.port === socket.port && port.address === socket.address);
      if (!isListed) ports?.push(socket);
    }
    for (const [tree, ports] of found) if (ports.length === 0) found.delete(tree);
    return found;
  }

  /** The processes of the trees. */
  async #pidsOf(trees: readonly ProcessTree[], slice: Slice): Promise<Map<number, ProcessTree>> {
    const byTag = new Map(trees.map((tree) => [tree.tag, tree]));
    const untagged = new Map(
      trees.filter(({ tag, reaped }) => tag === null && !reaped).map((tree) => [tree.pid, tree]),
    );
    byTag.delete(null);
    const pids = new Map<number, ProcessTree>();
    for (const pid of listPids()) {
      const tag = byTag.size === 0 ? null : this.#readTag(pid);
      const tree = (tag === null ? undefined : byTag.get(tag)) ?? ancestorOf(pid, untagged);
      if (tree !== undefined) pids.set(pid, tree);
      if (slice.isOver) await slice.next();
    }
    return pids;
  }

  /** Finds the tree of every new socket, and forgets sockets that are gone. */
  async #attribute(
    sockets: ReadonlyMap<string, ListeningPort>,
    pids: ReadonlyMap<number, ProcessTree>,
    slice: Slice,
  ): Promise<void> {
    for (const inode of this.#trees.keys()) if (!sockets.has(inode)) this.#trees.delete(inode);
    const fresh = new Set([...sockets.keys()].filter((inode) => !this.#trees.has(inode)));
    if (fresh.size === 0) return;
    this.descriptorScans++;
    for (const [pid, tree] of pids) {
      for (const descriptor of namesIn(`/proc/${pid}/fd`)) {
        const inode = socketInode(`/proc/${pid}/fd/${descriptor}`);
        if (inode !== null && fresh.delete(inode)) this.#trees.set(inode, tree);
        if (slice.isOver) await slice.next();
      }
      if (fresh.size === 0) return;
    }
    for (const inode of fresh) this.#trees.set(inode, null);
  }
}

/** Adds the listening sockets of network namespaces other than that of this process. */
async function addOtherNamespaces(
  pids: ReadonlyMap<number, ProcessTree>,
  sockets: Map<string, ListeningPort>,
  slice: Slice,
): Promise<void> {
  const seen = new Set([linkTarget('/proc/self/ns/net')]);
  for (const pid of pids.keys()) {
    const namespace = linkTarget(`/proc/${pid}/ns/net`);
    if (namespace !== null && !seen.has(namespace)) {
      seen.add(namespace);
      for (const [inode, socket] of readTable(pid, true)) sockets.set(inode, socket);
    }
    if (slice.isOver) await slice.next();
  }
}

/** The listening sockets of a process's network namespace, by inode. */
function readTable(pid: number | 'self', ownNetwork: boolean): Map<string, ListeningPort> {
  const sockets = new Map<string, ListeningPort>();
  for (const name of ['tcp', 'tcp6']) {
    for (const line of listeningLines(`/proc/${pid}/net/${name}`)) {
      const [, local = '', , , , , , , , inode = ''] = line.trim().split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      sockets.set(inode, { port: Number.parseInt(port, 16), address: addressOf(address), ownNetwork });
    }
  }
  return sockets;
}

/** The lines of listening sockets. The kernel lists these first, so that the open connections of a busy machine are not read. */
function listeningLines(path: string): string[] {
  const lines: string[] = [];
  let rest = '';
  let fd: number | null = null;
  try {
    fd = openSync(path, 'r');
    for (;;) {
      const length = readSync(fd, TABLE_BUFFER);
      const parts = (rest + TABLE_BUFFER.toString('latin1', 0, length)).split('\n');
      rest = parts.pop() ?? '';
      for (const line of parts) {
        if (LISTENING.test(line)) lines.push(line);
        else if (ENTRY.test(line)) return lines;
      }
      if (length === 0) return lines;
    }
  } catch {
    // The process is gone, or its namespace has no IPv6.
    return lines;
  } finally {
    if (fd !== null) closeSync(fd);
  }
}

const TABLE_BUFFER = Buffer.allocUnsafe(PORT_TABLE_READ_BYTES);
const ENTRY = /^\s*\d+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4} /;
/** State 0A is TCP_LISTEN. */
const LISTENING = /^\s*\d+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4} 0A /;

/** An address from its hexadecimal words, each in the byte order of the machine. */
function addressOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => {
    const pairs = word.match(/../g) ?? [];
    return IS_LITTLE_ENDIAN ? pairs.reverse() : pairs;
  });
  if (bytes.length === 4) return bytes.map((byte) => Number.parseInt(byte, 16)).join('.');
  const groups = (bytes.join('').match(/.{4}/g) ?? []).join(':');
  return new URL(`http://[${groups}]/`).hostname.slice(1, -1);
}

const IS_LITTLE_ENDIAN = endianness() === 'LE';

/** The tree whose program is the process itself or one of its ancestors. */
function ancestorOf(pid: number, trees: ReadonlyMap<number, ProcessTree>): ProcessTree | undefined {
  if (trees.size === 0) return undefined;
  let row = readProcess(pid);
  for (let steps = 0; row !== null && steps < PORT_SCAN_PARENTS; steps++) {
    const tree = trees.get(row.pid) ?? trees.get(row.session);
    if (tree !== undefined) return tree;
    row = row.parent > 1 ? readProcess(row.parent) : null;
  }
  return undefined;
}

function socketInode(path: string): string | null {
  return /^socket:\[(\d+)\]$/.exec(linkTarget(path) ?? '')?.[1] ?? null;
}

/** Null for a process that is gone or belongs to another user. */
function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** A share of the event loop's time. */
class Slice {
  #end = performance.now() + PORT_SCAN_SLICE_MS;

  get isOver(): boolean {
    return performance.now() >= this.#end;
  }

  /** Waits for the next turn of the event loop. */
  async next(): Promise<void> {
    await nextTurn();
    this.#end = performance.now() + PORT_SCAN_SLICE_MS;
  }
}
