import type { BulkBytes, RequestMessage, Trace } from '../protocol/envelope.ts';
import { methodNotFound } from '../protocol/errors.ts';
import { isMethod, METHODS, type Method, type ParamsOf, type ResultOf } from '../protocol/registry.ts';
import { validateParams } from '../protocol/validate.ts';
import { paramsWithText } from './large-request-decoder.ts';
import type { Answer } from './results.ts';

/** What a handler may know about the request it serves. */
export interface RequestContext {
  /** Aborted when the client is gone or says nothing more: who waits for what may never come answers with what there is. */
  readonly signal: AbortSignal;
  /** What to carry on to whatever the request starts; null unless requests are traced. */
  readonly trace: Trace | null;
  /** The large parameter that the method's definition names, if it came as bytes; the params hold nothing of it. */
  readonly bulk: BulkBytes | null;
  /** How long the result may be in JSON; a longer one is refused. */
  maxResultBytes(): number;
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
  readonly bulk: BulkBytes | null;
}

/** Looks the method up and checks the params. Throws RpcError. */
export function route(message: RequestMessage): RoutedRequest {
  const { method } = message;
  if (!isMethod(method)) throw methodNotFound(method);
  const definition = METHODS[method];
  const bulk = message.bulk?.field === definition.bulk ? (message.bulk ?? null) : null;
  const given = message.bulk && bulk === null ? paramsWithText(message.params, message.bulk) : message.params;
  const params = validateParams(definition.params, given);
  return { method, params, lane: definition.lane, subject: subjectOf(definition.subject, params), bulk };
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
