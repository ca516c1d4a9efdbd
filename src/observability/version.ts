/** The version of package.json, which bundles do not have. Written by scripts/generate-version.mjs. */
export const VERSION = '0.1.0';
