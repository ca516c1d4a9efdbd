import { afterEach, expect, test, vi } from 'vitest';
import { openLink } from '../../../console/src/views/terminal/open-link.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

test.each<[string, string | null]>([
  ['https://target.example/path', 'https://target.example/path'],
  ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/'],
  ['HTTPS://TARGET.example', 'https://target.example/'],
  ['javascript:alert(1)', null],
  [' javascript:alert(1)', null],
  ['java\nscript:alert(1)', null],
  ['data:text/html,<script>alert(1)</script>', null],
  ['blob:https://target.example/1', null],
  ['file:///etc/passwd', null],
  ['vscode://open', null],
  ['//target.example', null],
  ['', null],
])('opens web pages only, and gives them no access to this one: %j', (target, opened) => {
  const open = vi.fn();
  vi.stubGlobal('window', { open });
  openLink(target);
  expect(open.mock.calls).toEqual(opened === null ? [] : [[opened, '_blank', 'noopener,noreferrer']]);
});
