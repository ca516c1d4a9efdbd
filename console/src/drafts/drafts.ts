import { Store } from '../base/store.ts';
import type { TextFile } from '../views/files/text-file.ts';

/** Text that was not saved when the editor was closed by the end of the session, or with the page. */
export interface Draft {
  readonly environment: string;
  readonly path: string;
  readonly file: TextFile;
  /** The version of the file that the edit began with. */
  readonly version: string;
}

const KEY = 'exec-server-console.drafts';
/** The editor takes files of up to 1 MB, and a browser stores about 5 million characters for a tab. */
const MAX_DRAFTS = 4;

/** The drafts of this tab, the latest one last. They survive a reload and a new sign-in, and end with the tab. */
export const drafts = new Store<readonly Draft[]>(load());

/** Keeps a draft instead of an earlier one of the same file. The oldest one goes when there are too many. */
export function keepDraft(draft: Draft): void {
  setDrafts([...others(draft), draft].slice(-MAX_DRAFTS));
}

/** Removes the draft of a file, and returns it. Null when it has none. */
export function takeDraft(environment: string, path: string): Draft | null {
  const draft = drafts.value.find((each) => each.environment === environment && each.path === path);
  if (draft === undefined) return null;
  setDrafts(others(draft));
  return draft;
}

function others({ environment, path }: Draft): readonly Draft[] {
  return drafts.value.filter((each) => each.environment !== environment || each.path !== path);
}

function setDrafts(all: readonly Draft[]): void {
  drafts.set(all);
  // Drafts that the browser has no space for stay until the page is closed.
  for (let stored = all; stored.length > 0; stored = stored.slice(1)) {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(stored));
      return;
    } catch {}
  }
  sessionStorage.removeItem(KEY);
}

function load(): readonly Draft[] {
  try {
    const saved: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
    return Array.isArray(saved) ? saved.filter(isDraft).slice(-MAX_DRAFTS) : [];
  } catch {
    return [];
  }
}

/** An earlier release may have stored something else. */
function isDraft(value: unknown): value is Draft {
  const { environment, path, version, file } = (value ?? {}) as Partial<Draft>;
  const texts = [environment, path, version, file?.text, file?.byteOrderMark];
  const isEnded = typeof file?.endings === 'string' || Array.isArray(file?.endings);
  return isEnded && texts.every((text) => typeof text === 'string');
}
