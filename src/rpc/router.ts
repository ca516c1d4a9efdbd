import { bytesMemberOf } from '../protocol/bytes-members.ts';
import type { MethodDefinition, RefusedParams } from '../protocol/define.ts';
import type { BulkBytes, RequestMessage, Trace } from '../protocol/envelope.ts';
import { invalidParams, methodNotFound } from '../protocol/errors.ts';
import { METHODS, type Method, methodNamed, type ParamsOf, type ResultOf } from '../protocol/registry.ts';
import { validateParams } from '../protocol/validate.ts';
import { paramsWithText } from './large-request-decoder.ts';
import type { HandlerResult } from './results.ts';

/** What a handler knows about its request. */
export interface RequestContext {
  /** Aborts when the client is gone or has ended its input. A handler that waits then returns what it has. */
  readonly signal: AbortSignal;
  /** The trace to pass on to what the request starts; null unless requests are traced. */
  readonly trace: Trace | null;
  /** The large parameter of the method, if it arrived as bytes. The params then lack it. */
  readonly bulk: BulkBytes | null;
  /** Returns how long the JSON of the result may be. A longer result is refused. */
  maxResultBytes(): number;
  /** Gives up the request's slot while the handler only waits. */
  park(): void;
}

/**
 * One handler per method of the registry, except `initialize`, which opens the session. A missing handler does not
 * compile.
 */
export type Handlers = {
  readonly [M in Exclude<Method, 'initialize'>]: (
    params: ParamsOf<M>,
    context: RequestContext,
  ) => HandlerResult<ResultOf<M>> | Promise<HandlerResult<ResultOf<M>>>;
};

/** A request whose method exists and whose params are valid. */
export interface RoutedRequest {
  readonly method: Method;
  readonly params: unknown;
  readonly lane: 'ordinary' | 'control';
  readonly subject: string | null;
  readonly bulk: BulkBytes | null;
}

/** Looks up the method and validates the params. Throws RpcError. */
export function route(message: RequestMessage): RoutedRequest {
  const method = methodNamed(message.method);
  if (method === null) throw methodNotFound(message.method);
  const definition: MethodDefinition = METHODS[method];
  const bulk = message.bulk?.field === bytesMemberOf('requests', method) ? (message.bulk ?? null) : null;
  const given = message.bulk && bulk === null ? paramsWithText(message.params, message.bulk) : message.params;
  const params = validateParams(definition.params, given);
  if (definition.refused !== undefined) refuse(definition.refused, given);
  return { method, params, lane: definition.lane, subject: subjectOf(definition.subject, params), bulk };
}

/** Runs the handler of a routed request. Returns its result, or a promise of it. */
export function invoke(handlers: Handlers, request: RoutedRequest, context: RequestContext): unknown {
  const handler = handlers[request.method as keyof Handlers] as (
    params: unknown,
    context: RequestContext,
  ) => unknown;
  return handler(request.params, context);
}

/** The subject is a top-level member or a member of one of the nested request forms. */
function subjectOf(name: string | undefined, params: unknown): string | null {
  if (name === undefined || typeof params !== 'object' || params === null) return null;
  const subject = formOf(params)[name];
  return typeof subject === 'string' ? subject : null;
}

/** Throws RpcError when valid params have one that the method refuses. */
function refuse({ names, reason }: RefusedParams, params: unknown): void {
  const form = formOf(params as object);
  for (const holder of [params, form, form.request] as (Record<string, unknown> | undefined)[]) {
    for (const name of names) {
      const value = holder?.[name] ?? null;
      if (value !== null && !(Array.isArray(value) && value.length === 0)) {
        throw invalidParams(`params.${name}: ${reason}`);
      }
    }
  }
}

/** The nested request form of params, or the params themselves. */
function formOf(params: object): Record<string, unknown> {
  const members = params as Record<string, unknown>;
  return (members.direct ?? members.prepared ?? members) as Record<string, unknown>;
}
