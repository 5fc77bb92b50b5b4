type Send = (request: Request) => Promise<Response>;

interface Answer {
  readonly session: string;
  readonly etag: string;
  readonly response: Response;
}

/** Pages of lists that someone looks through. */
const MAX_ANSWERS = 100;

/**
 * Sends requests, and asks again for an answer only if it changed: polling costs the service a comparison. The memory of this page
 * alone has the answers, and those of another session are never used.
 */
export function conditional(send: Send, sessionMark: () => string): Send {
  const answers = new Map<string, Answer>();
  return async (request) => {
    if (request.method !== 'GET') return await send(request);
    const session = sessionMark();
    const key = `${request.headers.get('accept') ?? ''} ${request.url}`;
    const known = answers.get(key);
    const isUsable = known?.session === session;
    if (isUsable) request.headers.set('if-none-match', known.etag);
    const response = await send(request);
    if (isUsable && response.status === 304) return known.response.clone();
    answers.delete(key);
    const etag = response.headers.get('etag');
    // A strong tag is of what may be changed, not of the whole answer.
    if (response.ok && etag?.startsWith('W/')) {
      answers.set(key, { session, etag, response: response.clone() });
      const [oldest] = answers.keys();
      if (answers.size > MAX_ANSWERS && oldest !== undefined) answers.delete(oldest);
    }
    return response;
  };
}
