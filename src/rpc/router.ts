import type { RequestMessage, Trace } from '../protocol/envelope.ts';
import { methodNotFound } from '../protocol/errors.ts';
import { isMethod, METHODS, type Method, type ParamsOf, type ResultOf } from '../protocol/registry.ts';
import { validateParams } from '../protocol/validate.ts';
import type { Answer } from './answers.ts';

/** What a handler may know about the request it serves. */
export interface RequestContext {
  /** Aborted when the answer is no longer wanted. */
  readonly signal: AbortSignal;
  readonly trace: Trace | null;
  /** Gives up the request's slot while it only waits. */
  park(): void;
}

/** One function per method of the registry but `initialize`, which opens what the others work in; a missing one does not compile. */
export type Handlers = {
  readonly [M in Exclude<Method, 'initialize'>]: (
    params: ParamsOf<M>,
    context: RequestContext,
  ) => Answer<ResultOf<M>> | Promise<Answer<ResultOf<M>>>;
};

/** A request whose method exists and whose params are valid. */
export interface RoutedRequest {
  readonly method: Method;
  readonly params: unknown;
  readonly lane: 'ordinary' | 'control';
  readonly subject: string | null;
}

/** Looks the method up and checks the params. Throws RpcError. */
export function route(message: RequestMessage): RoutedRequest {
  const { method } = message;
  if (!isMethod(method)) throw methodNotFound(method);
  const definition = METHODS[method];
  const params = validateParams(definition.params, message.params);
  return { method, params, lane: definition.lane, subject: subjectOf(definition.subject, params) };
}

/** Runs the handler of a routed request; returns its answer, or a promise of it. */
export function invoke(handlers: Handlers, request: RoutedRequest, context: RequestContext): unknown {
  const handler = handlers[request.method as keyof Handlers] as (
    params: unknown,
    context: RequestContext,
  ) => unknown;
  return handler(request.params, context);
}

/** The subject may stand at the top or inside one of the nested request forms. */
function subjectOf(name: string | undefined, params: unknown): string | null {
  if (name === undefined || typeof params !== 'object' || params === null) return null;
  const members = params as Record<string, unknown>;
  const holder = (members.direct ?? members.prepared ?? members) as Record<string, unknown>;
  const subject = holder[name];
  return typeof subject === 'string' ? subject : null;
}
