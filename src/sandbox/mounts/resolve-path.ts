import {
  childPath,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { MAX_LINKS } from '../limits.ts';
import type { FileFacts, FileProbe } from './file-probe.ts';

/** A symbolic link on the way to a path. */
export interface CrossedLink {
  /** Where it lies, without links. */
  readonly path: NativePath;
  readonly target: string;
}

/** Where a path leads. */
export interface ResolvedPath {
  /** Without links; as far as there is nothing, by name alone. */
  readonly real: NativePath;
  /** Null where there is nothing. */
  readonly facts: FileFacts | null;
  /** The first name on the way that does not exist; null where all do. */
  readonly firstMissing: NativePath | null;
  /** What stands in the way: something that is no directory, but would have to be one. */
  readonly obstacle: NativePath | null;
  /** The directory that the server may not look into, when it cannot tell more. */
  readonly unreachable: NativePath | null;
  /** The links on the way, in order. */
  readonly links: readonly CrossedLink[];
}

/** Follows the path name by name, as the system does. */
export async function resolvePath(path: NativePath, probe: FileProbe): Promise<ResolvedPath> {
  const links: CrossedLink[] = [];
  const ahead = namesOf(path).reverse();
  let real = ROOT;
  let facts = await probe.facts(ROOT);
  const end = (rest: Partial<ResolvedPath>): ResolvedPath => ({
    real: ahead.reduceRight<NativePath>((directory, name) => step(directory, name), real),
    facts: null,
    firstMissing: null,
    obstacle: null,
    unreachable: null,
    links,
    ...rest,
  });
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    if (facts !== null && facts !== 'unreachable' && facts.type !== 'directory') {
      ahead.push(name);
      return end({ obstacle: real });
    }
    const parent = real;
    real = step(real, name);
    facts = await probe.facts(real);
    if (facts === null) return end({ firstMissing: real });
    if (facts === 'unreachable') return end({ unreachable: parent });
    if (facts.type !== 'link') continue;
    const target = await probe.linkTarget(real);
    links.push({ path: real, target });
    if (links.length > MAX_LINKS) {
      throw unenforceable(
        `cannot enforce the sandbox path ${textOfNativePath(path)}: there are too many symbolic links on the way`,
      );
    }
    real = target.startsWith('/') ? ROOT : parent;
    facts = await probe.facts(real);
    ahead.push(...namesOf(target).reverse());
  }
  return end(facts === 'unreachable' ? { unreachable: parentPath(real) } : { facts });
}

const ROOT = nativePathOfBytes('/');

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function step(directory: NativePath, name: string): NativePath {
  return name === '..' ? parentPath(directory) : childPath(directory, name);
}
