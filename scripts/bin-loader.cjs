#!/usr/bin/env node
// Runs the bundle from compiled code where that fits this Node, and from its text otherwise: compiling is half of what a start
// costs. The name of the bundle stands in for its content, so that text and compiled code always belong together.
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { Script } = require('node:vm');

const filename = join(__dirname, 'BUNDLE_NAME.js');
let cachedData;
try {
  cachedData = readFileSync(join(__dirname, 'BUNDLE_NAME.cache'));
} catch {
  // It could not be compiled in advance.
}
const wrapper = `(function(exports,require,module,__filename,__dirname){${readFileSync(filename, 'utf8')}\n})`;
const script = new Script(wrapper, { filename, cachedData });
script.runInThisContext()(exports, require, module, filename, __dirname);

/** The compiled form of what has run so far, for the build to keep. */
exports.compiled = () => script.createCachedData();
