/** The contents of the single executable, which has no package beside it. Paths are relative to `dist`. */
export interface EmbeddedFiles {
  readonly paths: readonly string[];
  /** Throws for a path that does not exist. */
  read(path: string): Uint8Array;
  /** Loads the native module of koffi. Throws when no folder can hold its file. */
  loadNative(): unknown;
  /** The arguments that make the executable run the helper of sandboxed file operations. */
  readonly fileHelper: readonly string[];
  /** The arguments that make the executable run the JavaScript text that follows them, like `node -e`. */
  readonly evaluate: readonly string[];
}

/** Null in the package. The first lines of the single executable set it (scripts/binary/main.cjs). */
export const embeddedFiles =
  (globalThis as { [EMBEDDED]?: EmbeddedFiles })[
    Symbol.for('exec-server.embedded-files') as typeof EMBEDDED
  ] ?? null;

declare const EMBEDDED: unique symbol;

/**
 * The program of a worker thread and how to run it: a file of the built package, or its text in the single executable. `moduleUrl` is the
 * URL of a module in a folder of `src`, from where the relative path is the same as from its compiled file and from the bundle.
 */
export function threadProgram(path: string, moduleUrl: string): { program: URL | string; eval: boolean } {
  return embeddedFiles === null
    ? { program: new URL(`../../dist/${path}`, moduleUrl), eval: false }
    : { program: new TextDecoder().decode(embeddedFiles.read(path)), eval: true };
}
