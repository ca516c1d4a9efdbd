/** The user of a pool that several clients share: a session, a connection, or a part of the server. Only its identity matters. */
export type Owner = object;

/** The part of what the others leave that an owner may hold. */
interface Part {
  readonly fraction: number;
  /** The fraction in words, for errors. */
  readonly words: string;
}

const HALF: Part = { fraction: 1 / 2, words: 'half' };
/** For a pool that is usually used by one owner. */
export const THREE_QUARTERS: Part = { fraction: 3 / 4, words: 'three quarters' };

/**
 * Divides the units of a pool among its owners so that none can take all of them: an owner may hold at most a part of what the others
 * leave, rounded up. With halves the first owner gets up to a half, the second up to a quarter, and so on.
 */
export class FairShares {
  readonly #total: number;
  readonly #name: string;
  readonly #onLeave: () => void;
  readonly #part: Part;
  readonly #held = new Map<Owner, number>();
  #used = 0;

  /** `name` says what the units are, for errors. `onLeave` is called when a share may have grown. */
  constructor(total: number, name = 'units', onLeave = () => {}, part = HALF) {
    this.#total = total;
    this.#name = name;
    this.#onLeave = onLeave;
    this.#part = part;
  }

  /** Units that no owner holds. */
  get free(): number {
    return this.#total - this.#used;
  }

  heldBy(owner: Owner): number {
    return this.#held.get(owner) ?? 0;
  }

  /** How many units the owner may hold at the moment. */
  shareOf(owner: Owner): number {
    return Math.ceil((this.#total - (this.#used - this.heldBy(owner))) * this.#part.fraction);
  }

  /** Whether the owner's share allows so many more units. */
  mayTake(owner: Owner, units = 1): boolean {
    return this.heldBy(owner) + units <= this.shareOf(owner);
  }

  /** Takes units that only this owner uses, until it returns them. False when its share does not allow it. */
  reserve(owner: Owner, units = 1): boolean {
    if (!this.mayTake(owner, units)) return false;
    this.#used += units;
    this.#count(owner, units);
    return true;
  }

  return(owner: Owner, units = 1): void {
    this.#used -= units;
    this.#count(owner, -units);
    this.#onLeave();
  }

  /** Takes units for the owner, which other owners may join. Null when the owner's share does not allow it. */
  take(owner: Owner, units = 1): SharedUnits | null {
    if (!this.mayTake(owner, units)) return null;
    this.#used += units;
    return new SharedUnits(
      owner,
      (added, isAdded) => this.#count(added, isAdded ? units : -units),
      (isFree) => {
        if (isFree) this.#used -= units;
        this.#onLeave();
      },
    );
  }

  /** Why the owner cannot take these units, as a clause. */
  refusal(owner: Owner, units = 1): string {
    const [held, share] = [this.heldBy(owner), this.shareOf(owner)];
    return (
      `the server has ${this.free} of ${this.#total} ${this.#name} left; ` +
      `this session has ${held} of its share of ${share} (${this.#part.words} of what other sessions leave) and needs ${units} more`
    );
  }

  #count(owner: Owner, units: number): void {
    const held = this.heldBy(owner) + units;
    if (held === 0) this.#held.delete(owner);
    else this.#held.set(owner, held);
  }
}

/** Units of a pool. They count once for the pool, once for each owner that uses them, and are free when the last owner has left. */
export class SharedUnits {
  readonly #uses = new Map<Owner, number>();
  readonly #count: (owner: Owner, isAdded: boolean) => void;
  readonly #left: (isFree: boolean) => void;

  constructor(
    owner: Owner,
    count: (owner: Owner, isAdded: boolean) => void,
    left: (isFree: boolean) => void,
  ) {
    this.#count = count;
    this.#left = left;
    this.join(owner);
  }

  /** Adds a use. An owner that has joined several times leaves as often. */
  join(owner: Owner): void {
    const uses = this.#uses.get(owner) ?? 0;
    this.#uses.set(owner, uses + 1);
    if (uses === 0) this.#count(owner, true);
  }

  leave(owner: Owner): void {
    const uses = this.#uses.get(owner) ?? 0;
    if (uses === 0) return;
    if (uses > 1) {
      this.#uses.set(owner, uses - 1);
      return;
    }
    this.#uses.delete(owner);
    this.#count(owner, false);
    this.#left(this.#uses.size === 0);
  }
}
