import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitepress';
import { anchorOf } from '../site-links.mjs';

// build.mjs names the folders, below website/.
const { DOCS_PAGES: pages, DOCS_SITE: site, DOCS_BASE: base = '/' } = process.env;
/** A site to check has neither colours nor small scripts: these take half of the time. */
const isCheck = site !== 'dist';
/** Written by build.mjs beside the pages: the groups and links of the side bar. */
const sidebar = JSON.parse(readFileSync(new URL(`../${pages}/sidebar.json`, import.meta.url), 'utf8'));
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

export default defineConfig({
  title: 'exec-server',
  description: 'An execution server for coding agents, CI and remote development.',
  base,
  srcDir: pages,
  srcExclude: ['public/**'],
  outDir: site,
  cleanUrls: true,
  vite: isCheck ? { build: { minify: false } } : {},
  // build.mjs has checked that these files exist.
  ignoreDeadLinks: [/^\/(schema|examples|deploy|skills)\//],
  markdown: {
    ...(isCheck && { highlight: plainCode }),
    // Text such as <name>, {a, b} and {{name}} is text.
    attrs: { disable: true },
    config: (md) => {
      md.set({ html: false });
      for (const rule of ['text', 'code_inline']) {
        const render = md.renderer.rules[rule];
        md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;');
      }
    },
    anchor: { slugify: anchorOf },
  },
  themeConfig: {
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Commands', link: '/cli' },
      { text: 'Protocol', link: '/protocol' },
      { text: 'Library', link: '/api/' },
      { text: version, link: '/project/CHANGELOG' },
    ],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
    footer: { message: 'Apache License 2.0' },
  },
});

function plainCode(text) {
  const escaped = text.replace(/[<>&{}]/g, (character) => `&#${character.charCodeAt(0)};`);
  return `<pre><code>${escaped}</code></pre>`;
}
