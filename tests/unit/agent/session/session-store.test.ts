import { describe, expect, test } from 'vitest';
import {
  FIRST_SESSION_ID,
  LAST_SESSION_ID,
  MAX_BUSY_SESSIONS,
  MAX_SESSIONS,
} from '../../../../src/agent/limits.ts';
import { SessionStore, type Stored } from '../../../../src/agent/session/session-store.ts';

type Entry = { -readonly [Key in keyof Stored]: Stored[Key] };

/** A store with sessions 0, 1, 2 …; the first is the least recently used. */
function storeOf(count: number, change: (entry: Entry) => void = () => {}) {
  const store = new SessionStore<Entry>(() => 0);
  const entries = Array.from({ length: count }, (): Entry => {
    const entry = { id: store.reserve()!, hasExited: false, busy: false };
    change(entry);
    store.add(entry);
    return entry;
  });
  return { store, entries };
}

describe('ids', () => {
  test('are random and skip ids in use', () => {
    const draws = [0.5, 0.5, 0.999_999_999, 0.999_999_999];
    const store = new SessionStore<Entry>(() => draws.shift()!);
    const middle = store.reserve()!;
    expect(middle).toBe(FIRST_SESSION_ID + (LAST_SESSION_ID - FIRST_SESSION_ID + 1) / 2);
    expect(store.reserve()).toBe(middle + 1);
    expect(store.reserve()).toBe(LAST_SESSION_ID);
    expect(store.reserve()).toBe(FIRST_SESSION_ID);
  });

  test('are free again after cancel', () => {
    const store = new SessionStore<Entry>(() => 0);
    store.cancel(store.reserve()!);
    expect(store.reserve()).toBe(FIRST_SESSION_ID);
  });

  test('are limited in number', () => {
    const { store, entries } = storeOf(MAX_BUSY_SESSIONS - 1);
    expect(store.reserve()).not.toBeNull();
    expect(store.reserve()).toBeNull();
    store.remove(entries[0]!);
    expect(store.reserve()).not.toBeNull();
  });
});

describe('too many sessions', () => {
  test('evicts none below the limit', () => {
    const { store } = storeOf(MAX_SESSIONS, (entry) => {
      entry.hasExited = true;
    });
    expect(store.evict()).toEqual([]);
  });

  test('evicts the oldest when all run', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 1);
    store.touch(entries[0]!);
    expect(store.evict()).toEqual([entries[1]]);
    expect(store.has(entries[1]!)).toBe(false);
    expect(store.evict()).toEqual([]);
  });

  test('evicts as many as necessary', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 3);
    expect(store.evict()).toEqual(entries.slice(0, 3));
    expect(store.all()).toHaveLength(MAX_SESSIONS);
  });

  test('evicts an exited session before older running ones', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 1);
    entries[20]!.hasExited = true;
    entries[30]!.hasExited = true;
    expect(store.evict()).toEqual([entries[20]]);
  });

  test('keeps the most recently used ones, even exited ones', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 1);
    for (const entry of entries.slice(-8)) entry.hasExited = true;
    expect(store.evict()).toEqual([entries[0]]);
  });

  test('skips sessions with a call', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 1);
    entries[0]!.busy = true;
    expect(store.evict()).toEqual([entries[1]]);
  });

  test('evicts no running session while a call uses an exited one', () => {
    const { store, entries } = storeOf(MAX_SESSIONS + 1);
    Object.assign(entries[5]!, { busy: true, hasExited: true });
    expect(store.evict()).toEqual([]);
    entries[9]!.hasExited = true;
    expect(store.evict()).toEqual([entries[9]]);
  });

  test('distinguishes a session from a later one with the same id', () => {
    const { store, entries } = storeOf(1);
    const old = entries[0]!;
    store.remove(old);
    const successor = { ...old };
    store.add(successor);
    store.remove(old);
    expect(store.get(old.id)).toBe(successor);
  });
});
