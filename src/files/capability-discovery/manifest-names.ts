/** Directories that may contain the manifest of a plugin. The first existing one counts. */
export const MANIFEST_FOLDERS: readonly string[] = ['.codex-plugin', '.claude-plugin', '.cursor-plugin'];

/** The file name of the manifest. */
export const MANIFEST_NAME = 'plugin.json';
