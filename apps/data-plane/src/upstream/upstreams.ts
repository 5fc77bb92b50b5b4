import type { IncomingHttpHeaders } from 'node:http';
import type { Connector } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { type Dispatcher, Pool } from 'undici';

/** The connections to the vendors: a pool for each origin, kept alive, over HTTP/1.1. */
export interface Upstreams {
  /** Sends a request and resolves with the head of the answer; its body is still to come. */
  send(connector: Connector, request: UpstreamRequest): Promise<UpstreamAnswer>;
  close(): Promise<void>;
}

interface UpstreamRequest {
  /** Appended to the connector's base URL: `/chat/completions`, with the query string. */
  readonly path: string;
  readonly headers: Record<string, string | string[]>;
  readonly body: Buffer;
}

export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Dispatcher.ResponseData['body'];
}

export interface UpstreamOptions {
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly chunkTimeoutMs: number;
}

const MAX_CONNECTIONS = 1_024;

export function createUpstreams(options: UpstreamOptions): Upstreams {
  const pools = new Map<string, Pool>();
  const poolOf = (origin: string): Pool => {
    const known = pools.get(origin);
    if (known) return known;
    const pool = new Pool(origin, {
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      connect: { timeout: options.connectTimeoutMs },
      headersTimeout: options.firstByteTimeoutMs,
      bodyTimeout: options.chunkTimeoutMs,
    });
    pools.set(origin, pool);
    return pool;
  };

  return {
    async send(connector, { path, headers, body }) {
      const base = new URL(connector.baseUrl);
      const answer = await poolOf(base.origin).request({
        method: 'POST',
        path: base.pathname.replace(/\/$/, '') + path,
        headers,
        body,
      });
      return { status: answer.statusCode, headers: answer.headers, body: answer.body };
    },
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
    },
  };
}

/** What undici says when not a byte of the request can have reached the vendor. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);
const TIMED_OUT = new Set(['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

export function wasNeverSent(error: unknown): boolean {
  return NEVER_SENT.has(codeOf(error)) || /CERT|TLS|SSL/.test(codeOf(error));
}

/** A failure on the way to a vendor or back, in words for the caller. */
export function upstreamError(error: unknown, provider: string): AppError {
  if (TIMED_OUT.has(codeOf(error))) {
    return new AppError(
      'upstream_timeout',
      'upstream_timeout',
      `The provider ${provider} did not answer in time.`,
      {
        cause: error,
      },
    );
  }
  const what = wasNeverSent(error) ? 'could not be reached' : 'broke the connection';
  return new AppError('upstream', 'upstream_error', `The provider ${provider} ${what}.`, { cause: error });
}

function codeOf(error: unknown): string {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  if (typeof code === 'string') return code;
  return cause instanceof Error ? codeOf(cause) : '';
}
