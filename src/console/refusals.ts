import { type Answer, fail } from './answers.ts';
import type { SessionEnd } from './console-sessions.ts';

/** Another site has sent the request, or a program that poses as a browser. */
export const FOREIGN_ORIGIN = fail(403, 'forbidden', 'only the page of this console may send this request');
/** The console ends. Sessions have not ended for the page: it tries again, and says that the server does not answer. */
export const ENDED = fail(503, 'offline', 'the console has ended');
/** Nothing has this path. */
export const NOT_FOUND = fail(404, 'notFound', 'the console has no such address');
/** The code signs no browser in. */
export const BAD_CODE = fail(
  401,
  'badCode',
  'the code was used already, has expired or is wrong; ask for a new link',
);
/** The ticket opens no websocket. */
export const BAD_TICKET = fail(401, 'signedOut', 'the ticket was used already, has expired or is wrong');
/** The request names an environment that the console does not have. */
export const UNKNOWN_ENVIRONMENT = fail(404, 'notFound', 'the console has no such environment');

/** By what is wrong with the body of a request. */
export const BODY_PROBLEMS = {
  wrongType: fail(415, 'forbidden', 'the content type must be application/json'),
  tooLarge: fail(413, 'tooLarge', 'the request is too large', { connection: 'close' }),
  malformed: fail(400, 'badRequest', 'the body must be a JSON object'),
};

/** By why a request has no session. */
export const SESSION_PROBLEMS: Readonly<Record<SessionEnd, Answer>> = {
  signedOut: fail(401, 'signedOut', 'this browser is not signed in; open a new link'),
  expired: fail(401, 'expired', 'the session has expired; open a new link'),
  kicked: fail(
    401,
    'kicked',
    'the server has ended the session: its token was revoked, this browser has signed in again, or too many others have; open a new link',
  ),
};
