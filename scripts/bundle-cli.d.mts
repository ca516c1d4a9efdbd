/** The commands of each bundle but `main`. */
export const BUNDLES: Readonly<Record<string, readonly string[]>>;

/** Whether a module that src/cli/commands.ts loads belongs to a bundle. */
export const MODULES: Readonly<Record<string, (path: string) => boolean>>;
