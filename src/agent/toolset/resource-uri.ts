import { ToolFailure } from './failure.ts';
import type { ToolResource } from './types.ts';

/** What a resource is: the retained output of a process, or a file by its `file:` URI. */
export type ResourceSubject =
  | { readonly type: 'output'; readonly ref: string }
  | { readonly type: 'file'; readonly uri: string };

/** Describes a resource: `exec-server://ENV/processes/REF/output` or `exec-server://ENV/files/PATH`. */
export function resourceOf(
  environment: string,
  subject: ResourceSubject,
  {
    mimeType = 'text/plain',
    size = null,
  }: { readonly mimeType?: string; readonly size?: number | null } = {},
): ToolResource {
  const host = `exec-server://${encodeURIComponent(environment)}`;
  return subject.type === 'output'
    ? {
        uri: `${host}/processes/${encodeURIComponent(subject.ref)}/output`,
        name: `output of ${subject.ref}`,
        mimeType,
        size,
      }
    : {
        uri: `${host}/files${subject.uri.slice('file://'.length)}`,
        name: decodeURIComponent(subject.uri.split('/').at(-1) ?? ''),
        mimeType,
        size,
      };
}

/** Reads the URI of a resource. Throws ToolFailure. */
export function parseResourceUri(uri: string): {
  readonly environment: string;
  readonly subject: ResourceSubject;
} {
  const [, host, kind, rest] = /^exec-server:\/\/([^/]+)\/(processes|files)(\/.*)$/.exec(uri) ?? [];
  const ref = /^\/([^/]+)\/output$/.exec(rest ?? '')?.[1];
  if (host === undefined || rest === undefined || (kind === 'processes' && ref === undefined)) {
    throw new ToolFailure(
      `${JSON.stringify(uri.slice(0, 200))} is not a resource of exec-server. The forms are exec-server://ENVIRONMENT/processes/REF/output and exec-server://ENVIRONMENT/files/PATH.`,
    );
  }
  const subject: ResourceSubject =
    kind === 'processes'
      ? { type: 'output', ref: decodeURIComponent(ref!) }
      : { type: 'file', uri: `file://${rest}` };
  return { environment: decodeURIComponent(host), subject };
}
