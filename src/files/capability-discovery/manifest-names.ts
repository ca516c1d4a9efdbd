/** Folders that may hold the manifest of a plugin; the first one counts. */
export const MANIFEST_FOLDERS: readonly string[] = ['.codex-plugin', '.claude-plugin', '.cursor-plugin'];

/** The manifest's name in its folder. */
export const MANIFEST_NAME = 'plugin.json';
