import { createRequire } from 'node:module';
import type { default as Koffi } from 'koffi';
import { embeddedFiles } from '../base/embedded-files.ts';

/**
 * The foreign function interface of the package koffi. Loads its native module for this system directly: the package itself only chooses
 * between those of twenty systems, and has an install script, which npm warns about. Throws when the module is not installed.
 */
export const koffi = loadKoffi();

function loadKoffi(): typeof Koffi {
  if (embeddedFiles !== null) return embeddedFiles.loadNative() as typeof Koffi;
  // A bundle that is not a module has `require` and no URL.
  const load = typeof require === 'function' ? require : createRequire(import.meta.url);
  return load(`@koromix/koffi-${process.platform}-${process.arch}`) as typeof Koffi;
}
