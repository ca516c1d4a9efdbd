import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitepress';
import { anchorOf } from '../site-links.mjs';

/** Written by build.mjs beside the pages: the groups and links of the side bar. */
const sidebar = JSON.parse(readFileSync(new URL('../.pages/sidebar.json', import.meta.url), 'utf8'));
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

export default defineConfig({
  title: 'exec-server',
  description: 'An execution server for coding agents, CI and remote development.',
  base: process.env.DOCS_BASE ?? '/',
  srcDir: '.pages',
  srcExclude: ['public/**'],
  outDir: 'dist',
  cleanUrls: true,
  // build.mjs has checked that these files exist.
  ignoreDeadLinks: [/^\/(schema|examples|deploy|skills)\//],
  markdown: {
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
