import { type NativePath, nativePathOfBytes, parentPath } from '../../files/native-path.ts';
import type { Access } from '../policy/policy.ts';

/** The access of every path. The longest path that was set decides. */
export class AccessMap {
  readonly #base: Access;
  readonly #set = new Map<NativePath, Access>();

  constructor(base: Access) {
    this.#base = base;
  }

  set(path: NativePath, access: Access): void {
    this.#set.set(path, access);
  }

  at(path: NativePath): Access {
    for (let at = path; at !== ROOT; at = parentPath(at)) {
      const access = this.#set.get(at);
      if (access !== undefined) return access;
    }
    return this.#base;
  }

  /** The access that the path would have if none were set for it. */
  around(path: NativePath): Access {
    return this.at(parentPath(path));
  }
}

const ROOT = nativePathOfBytes('/');
