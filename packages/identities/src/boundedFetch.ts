import { publicLookup } from '@weighbridge/runtime';

export interface BoundedFetchOptions {
  /** Whether the host may resolve to a private address. */
  readonly allowPrivateAddress: boolean;
  readonly timeoutMs: number;
}

/** The answer of an identity provider is small. */
const MAX_BYTES = 64 * 1024;

/** What a library asks of `fetch`. */
interface FetchInit {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: unknown;
}

/**
 * `fetch` that connects to public addresses only, follows no redirect, which could take a secret anywhere, and reads at most
 * 64 KiB.
 */
export async function boundedFetch(
  url: string,
  { method, headers, body }: FetchInit,
  { allowPrivateAddress, timeoutMs }: BoundedFetchOptions,
): Promise<Response> {
  // Here, since it takes 10 MB and most processes never ask an identity provider.
  const { Agent, fetch } = await import('undici');
  const connect = { timeout: timeoutMs, ...(!allowPrivateAddress && { lookup: publicLookup }) };
  const agent = new Agent({ connect, maxResponseSize: MAX_BYTES });
  try {
    const response = await fetch(url, {
      method,
      headers,
      body: body as string | URLSearchParams,
      redirect: 'manual',
      dispatcher: agent,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const text = await response.text();
    // A body is not allowed with these.
    const isEmpty = response.status === 204 || response.status === 304;
    return new Response(isEmpty ? null : text, {
      status: response.status,
      headers: [...response.headers],
    });
  } finally {
    await agent.destroy();
  }
}
