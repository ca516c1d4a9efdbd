import type { HeaderField } from '../../network/http/header-fields.ts';
import type { HttpRequest } from '../../network/http/request.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import { Base64Result } from '../../rpc/answers.ts';
import type { Handlers } from '../../rpc/router.ts';
import type { HandlerServices } from './services.ts';
import { bytesParam } from './strict-base64.ts';

type HttpMethod = Extract<keyof Handlers, `http/${string}`>;

/** The `http/*` methods. A request parks its slot: a server that does not answer delays nobody. */
export function httpHandlers({ http }: HandlerServices): Pick<Handlers, HttpMethod> {
  return {
    'http/request': async (params, { bulk, signal, park }) => {
      const { requestId, streamResponse, windowBytes, bodyBase64 } = params;
      const body = bytesParam({ bodyBase64: bodyBase64 ?? '' }, 'bodyBase64', bulk);
      const request = requestOf(params, body);
      park();
      if (!streamResponse) {
        const { status, fields, body: answer, release } = await http.fetch(requestId, request, signal);
        return answerOf(status, fields, answer, release);
      }
      const { status, fields, start } = await http.stream(requestId, request, windowBytes ?? null);
      // Encoding is the last thing that is done before the answer is sent, so that the body always follows it.
      return answerOf(status, fields, NOTHING, () => queueMicrotask(start));
    },

    'http/cancel': ({ requestId }) => ({ cancelled: http.cancel(requestId) }),

    'http/consumed': ({ requestId, bytes }) => {
      http.consumed(requestId, bytes);
      return {};
    },
  };
}

const NOTHING = Buffer.alloc(0);

function requestOf(params: ParamsOf<'http/request'>, body: Buffer): HttpRequest {
  const { method, url, headers, redirectPolicy: redirect, timeoutMs } = params;
  return { method, url, headers, body, redirect, timeoutMs: timeoutMs ?? null };
}

function answerOf(
  status: number,
  fields: readonly HeaderField[],
  body: Buffer,
  encoded: () => void,
): Base64Result {
  const headers = JSON.stringify(fields.map(({ name, value }) => ({ name, value })));
  return new Base64Result(`{"status":${status},"headers":${headers},"bodyBase64":"`, body, '"}', encoded);
}
