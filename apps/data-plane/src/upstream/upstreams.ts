import type { Connector } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { assertPublicHost, publicLookup } from '@weighbridge/runtime';
import { Pool } from 'undici';
import type { Body } from '../formats/body.ts';
import type { Cancellation } from './cancellation.ts';
import { Exchange, NeverSentError, type UpstreamAnswer } from './exchange.ts';

/** The connections to the vendors: a pool for each origin, kept alive, over HTTP/1.1. */
export interface Upstreams {
  /** Takes a place among the requests to a connector; throws a 503 where as many are under way as it takes. */
  enter(connector: Connector): Place;
  close(): Promise<void>;
}

/** One request's place, until it leaves. Either of these is to be called, once. */
interface Place {
  /**
   * Sends the request and resolves with the head of the answer; its body is still to come, and must be read or destroyed.
   * It leaves when that is over. `cancellation` ends the request and its answer.
   */
  send(request: UpstreamRequest, cancellation: Cancellation): Promise<UpstreamAnswer>;
  /** Nothing is sent after all. */
  leave(): void;
}

interface UpstreamRequest {
  /** Appended to the connector's base URL: `/chat/completions`, with the query string. */
  readonly path: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Names and values, one after the other. */
  readonly headers: string[];
  readonly body: Body | undefined;
}

export interface UpstreamOptions {
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly chunkTimeoutMs: number;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** What a request that was routed by earlier settings still asks for stays open for as long. */
export const UNUSED_MS = 60_000;

/** `nowMs` is monotonic. */
export function createUpstreams(options: UpstreamOptions, nowMs = () => performance.now()): Upstreams {
  /** By connector: those of its present settings, and for a while those of earlier ones. */
  const accounts = new Map<string, readonly Account[]>();

  function accountOf(connector: Connector): Account {
    const known = accounts.get(connector.id) ?? [];
    const timeouts = timeoutsOf(connector, options);
    const same = known.find((account) => isSameAccount(account, connector, timeouts));
    const account = same ?? openAccount(connector, timeouts);
    account.usedAtMs = nowMs();
    if (!same || known.length > 1) accounts.set(connector.id, [account, ...closeUnused(known, account)]);
    return account;
  }

  /** Of the accounts besides one, closes those that nobody uses any more; returns the others. */
  function closeUnused(known: readonly Account[], besides: Account): Account[] {
    return known.filter((account) => {
      if (account === besides) return false;
      // Also what is to be sent, but was not yet, counts as under way.
      if (account.underWay > 0 || besides.usedAtMs - account.usedAtMs < UNUSED_MS) return true;
      void account.pool.close();
      return false;
    });
  }

  return {
    enter(connector) {
      const account = accountOf(connector);
      if (account.underWay >= (connector.maxParallel ?? Number.POSITIVE_INFINITY)) throw busy(connector);
      return new AccountPlace(account);
    },
    async close() {
      await Promise.all([...accounts.values()].flat().map(({ pool }) => pool.destroy()));
    },
  };
}

/** The connections of one connector, and how many requests are under way on them. */
interface Account {
  readonly baseUrl: string;
  readonly mayBePrivate: boolean;
  readonly timeouts: UpstreamOptions;
  readonly path: string;
  readonly hostname: string;
  readonly pool: Pool;
  underWay: number;
  usedAtMs: number;
}

class AccountPlace implements Place {
  readonly #account: Account;

  constructor(account: Account) {
    this.#account = account;
    account.underWay++;
  }

  send(
    { method, path, headers, body }: UpstreamRequest,
    cancellation: Cancellation,
  ): Promise<UpstreamAnswer> {
    const { mayBePrivate, hostname, path: base, pool } = this.#account;
    try {
      if (!mayBePrivate) requirePublic(hostname);
    } catch (error) {
      this.leave();
      return Promise.reject(error);
    }
    const request = { method, path: base + path, headers, body: body ? sent(body, headers) : null };
    return new Exchange(cancellation, this).begin(pool, request);
  }

  leave(): void {
    this.#account.underWay--;
  }
}

/** In one write, with the head, where it is one piece; else its length has to be said. */
function sent({ pieces, length }: Body, headers: string[]): Buffer {
  const [first] = pieces;
  if (pieces.length === 1 && first) return first;
  headers.push('content-length', String(length));
  // It takes what can be iterated, as https://undici.nodejs.org/#/docs/api/Dispatcher?id=parameter-dispatchoptions says;
  // its types do not.
  return pieces as unknown as Buffer;
}

function openAccount({ baseUrl, allowPrivateAddress }: Connector, options: UpstreamOptions): Account {
  const { origin, pathname, hostname } = new URL(baseUrl);
  const pool = new Pool(origin, {
    // As many as there are requests: what limits those is max_parallel, not a queue that nobody sees.
    connections: null,
    pipelining: 1,
    connect: {
      timeout: options.connectTimeoutMs,
      ...(!allowPrivateAddress && { lookup: publicLookup }),
    },
    headersTimeout: options.firstByteTimeoutMs,
    bodyTimeout: options.chunkTimeoutMs,
  });
  return {
    baseUrl,
    mayBePrivate: allowPrivateAddress,
    timeouts: options,
    path: pathname.replace(/\/$/, ''),
    hostname,
    pool,
    underWay: 0,
    usedAtMs: 0,
  };
}

function requirePublic(hostname: string): void {
  try {
    assertPublicHost(hostname);
  } catch (error) {
    throw new NeverSentError(error);
  }
}

/** The connector's own time-outs, where it has any. */
function timeoutsOf(connector: Connector, options: UpstreamOptions): UpstreamOptions {
  return {
    connectTimeoutMs: connector.connectTimeoutMs ?? options.connectTimeoutMs,
    firstByteTimeoutMs: connector.firstByteTimeoutMs ?? options.firstByteTimeoutMs,
    chunkTimeoutMs: connector.chunkTimeoutMs ?? options.chunkTimeoutMs,
  };
}

function isSameAccount(account: Account, connector: Connector, timeouts: UpstreamOptions): boolean {
  return (
    account.baseUrl === connector.baseUrl &&
    account.mayBePrivate === connector.allowPrivateAddress &&
    account.timeouts.connectTimeoutMs === timeouts.connectTimeoutMs &&
    account.timeouts.firstByteTimeoutMs === timeouts.firstByteTimeoutMs &&
    account.timeouts.chunkTimeoutMs === timeouts.chunkTimeoutMs
  );
}

const BUSY = 'connector_busy';

function busy({ provider }: Connector): AppError {
  const message = `As many requests as allowed are under way to the provider ${provider}. Try again.`;
  return new AppError('unavailable', BUSY, message);
}

/** As many requests as the connector takes are under way. */
export function isBusy(error: unknown): boolean {
  return error instanceof AppError && error.code === BUSY;
}

/** Followed, a redirect would carry the caller's prompt, and a credential, to wherever the answer says. */
export function isRedirect({ status }: UpstreamAnswer): boolean {
  return REDIRECTS.has(status);
}

export function redirectError(provider: string): AppError {
  const message = `The provider ${provider} answered with a redirect, which this service does not follow.`;
  return new AppError('upstream', 'upstream_redirect', message);
}

const TIMED_OUT = new Set(['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Not a byte of the request can have reached the vendor. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof NeverSentError;
}

export function isTimeout(error: unknown): boolean {
  return TIMED_OUT.has(codeOf(error));
}

/** A failure on the way to a vendor or back, in words for the caller. */
export function upstreamError(error: unknown, provider: string): AppError {
  if (error instanceof AppError) return error;
  // Where the service ends, the reason is an error for the caller.
  if (error instanceof NeverSentError && error.cause instanceof AppError) return error.cause;
  if (isTimeout(error)) {
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
