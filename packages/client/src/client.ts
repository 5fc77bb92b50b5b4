import createFetchClient, { type Client as FetchClient } from 'openapi-fetch';
import { ApiError, readApiError } from './apiError.ts';
import type { paths } from './gen/openapi.ts';

export interface ClientOptions {
  /** The service's URL, without `/api/v1`; in a browser, `''` is the page's own origin. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Default: the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** One method per HTTP method: `client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id } } })`. */
export type Client = FetchClient<paths>;

/** A client of the operator API. Its calls reject with an ApiError for an error response, and if the service is unreachable. */
export function createClient({ baseUrl, apiKey, fetch }: ClientOptions): Client {
  const client = createFetchClient<paths>({
    baseUrl: baseUrl.replace(/\/+$/, ''),
    headers: { authorization: `Bearer ${apiKey}` },
    ...(fetch && { fetch }),
  });
  client.use({
    async onResponse({ response }) {
      if (!response.ok) throw await readApiError(response);
    },
    onError({ error, request }) {
      if (error instanceof ApiError) return error;
      const { origin } = new URL(request.url);
      if (isTimeout(error)) {
        const message = `${origin} has not responded for minutes. It may still complete the request: check before you retry a write.`;
        return new ApiError({ status: 0, code: 'no_answer_yet', message, cause: error });
      }
      const message = `${origin} is unreachable. Check the address, and whether Weighbridge is running.`;
      return new ApiError({ status: 0, code: 'unreachable', message, cause: error });
    },
  });
  return client;
}

/** The time-outs of Node's fetch (https://undici.nodejs.org/#/docs/api/Errors). */
function isTimeout(error: unknown): boolean {
  const { code } = (error as { cause?: { code?: unknown } } | null)?.cause ?? {};
  return code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT';
}

/** The body of a successful response: `const key = await bodyOf(client.GET(…))`. */
export async function bodyOf<T>(call: Promise<{ data?: T; response: Response }>): Promise<T> {
  const { data } = await call;
  return data as T;
}
