import createFetchClient, { type Client as FetchClient } from 'openapi-fetch';
import { ApiError, readApiError } from './apiError.ts';
import type { paths } from './gen/openapi.ts';

export interface ClientOptions {
  /** Where the service is, without `/api/v1`; in a browser, `''` is the page's own origin. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Instead of the global one. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** One method per HTTP method: `client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id } } })`. */
export type Client = FetchClient<paths>;

/** A client of the operator API. Its calls reject with an ApiError where the service refuses or can't be reached. */
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
      if (isSlow(error)) {
        const message = `${origin} has not answered for minutes, and is no longer waited for. It goes on with what it was asked.`;
        return new ApiError({ status: 0, code: 'no_answer_yet', message, cause: error });
      }
      const message = `${origin} can't be reached: is Weighbridge running there?`;
      return new ApiError({ status: 0, code: 'unreachable', message, cause: error });
    },
  });
  return client;
}

/** As Node's fetch says that it gave up waiting (https://undici.nodejs.org/#/docs/api/Errors). */
function isSlow(error: unknown): boolean {
  const { code } = (error as { cause?: { code?: unknown } } | null)?.cause ?? {};
  return code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT';
}

/** The body of an answer: `const key = await answer(client.GET(…))`. */
export async function answer<T>(call: Promise<{ data?: T; response: Response }>): Promise<T> {
  const { data } = await call;
  return data as T;
}
