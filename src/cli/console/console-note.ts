import { consoleOrigin } from '../../console/paths.ts';

/** What `serve --console` prints about its console. `link` is null where a link needs a token. */
export function consoleNote(url: string, link: string | null): string {
  const more = `exec-server console --link -E ${url}`;
  return link === null
    ? `Console: ${consoleOrigin(url)}/console/\n'${more} --token-file FILE' prints a link that signs a browser in.\n`
    : `Console: ${link}\nThe link signs one browser in, once, within a minute. '${more}' prints another one.\n`;
}
