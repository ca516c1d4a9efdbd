#!/usr/bin/env node
// Runs the bundle from its V8 code cache if that matches this Node version, and from its source otherwise. Compiling is half of the
// start time. The name of the bundle is a hash of its content, so that source and code cache always match.
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { Script } = require('node:vm');

const filename = join(__dirname, 'BUNDLE_NAME.js');
let cachedData;
try {
  cachedData = readFileSync(join(__dirname, 'BUNDLE_NAME.cache'));
} catch {
  // There is no code cache.
}
const wrapper = `(function(exports,require,module,__filename,__dirname){${readFileSync(filename, 'utf8')}\n})`;
const script = new Script(wrapper, { filename, cachedData });
script.runInThisContext()(exports, require, module, filename, __dirname);

/** Returns the code cache of the functions that have run so far, for the build to store. */
exports.compiled = () => script.createCachedData();
