import type { Connector } from '@weighbridge/contracts';
import { assertPublicHost, publicLookup } from '@weighbridge/runtime';
import { signedInvocation } from './bedrock/signedInvocation.ts';
import type { Cancellation } from './cancellation.ts';
import type { ConnectorIdentities, ConnectorIdentity } from './connectorIdentities.ts';
import { HttpPool } from './http1/httpPool.ts';
import { HttpExchange, type UpstreamResponse } from './httpExchange.ts';
import { bearing, type Identified, predicting } from './identifiedRequest.ts';
import { busyError, NeverSentError, unidentifiedError } from './upstreamErrors.ts';
import type { UpstreamRequest } from './upstreamRequest.ts';

/** The connections to the vendors: one keep-alive HTTP/1.1 pool per connector. */
export interface Upstreams {
  /** Throws a 503 if the connector has as many requests in flight as it allows. */
  acquirePermit(connector: Connector): UpstreamPermit;
  /** The vendor refused this access token: resolves with whether the connector has another one now. */
  renewToken(connector: Connector, refused: string): Promise<boolean>;
  close(): Promise<void>;
}

/** A permit for one request to the connector. Call either `send` or `release`, once. */
interface UpstreamPermit {
  /**
   * Sends the request and resolves with the head of the response; its body must be read or destroyed, and the permit is
   * released when that is over. `cancellation` ends the request and its response. `beforeSending` is called before the first
   * byte goes out: if it throws, none does.
   */
  send(
    request: UpstreamRequest,
    cancellation: Cancellation,
    beforeSending?: () => void,
  ): Promise<UpstreamResponse>;
  /** Gives the permit back without sending anything. */
  release(): void;
}

export interface UpstreamOptions {
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly chunkTimeoutMs: number;
}

/** A pool with outdated settings stays open this long after its last use: requests routed before the change still use it. */
export const UNUSED_MS = 60_000;

/** `nowMs` is monotonic. */
export function createUpstreams(
  options: UpstreamOptions,
  identities: ConnectorIdentities,
  nowMs = () => performance.now(),
): Upstreams {
  /** By connector id: the pool of its current settings, and for a while those of earlier settings. */
  const poolsOf = new Map<string, readonly ConnectorPool[]>();

  function poolOf(connector: Connector): ConnectorPool {
    const pools = poolsOf.get(connector.id) ?? [];
    const timeouts = timeoutsOf(connector, options);
    const match = pools.find((pool) => hasSettings(pool, connector, timeouts));
    const pool = match ?? openPool(connector, timeouts);
    pool.usedAtMs = nowMs();
    if (!match || pools.length > 1) poolsOf.set(connector.id, [pool, ...closeUnused(pools, pool)]);
    return pool;
  }

  /** Closes the outdated pools that are no longer used; returns those that are. */
  function closeUnused(pools: readonly ConnectorPool[], current: ConnectorPool): ConnectorPool[] {
    return pools.filter((pool) => {
      if (pool === current) return false;
      // A permit whose request is not sent yet counts as in flight too.
      if (pool.inFlight > 0 || current.usedAtMs - pool.usedAtMs < UNUSED_MS) return true;
      pool.connections.close();
      return false;
    });
  }

  return {
    acquirePermit(connector) {
      const pool = poolOf(connector);
      if (pool.inFlight >= (connector.maxParallel ?? Number.POSITIVE_INFINITY)) {
        throw busyError(connector.provider);
      }
      const identity = identities.of(connector);
      return identity ? new IdentifiedPermit(pool, identity, connector.provider) : new PoolPermit(pool);
    },
    async renewToken(connector, refused) {
      return (await identities.of(connector)?.tokens.renew(refused)) ?? false;
    },
    async close() {
      for (const { connections } of [...poolsOf.values()].flat()) connections.destroy();
    },
  };
}

/** The connections of one connector under one set of settings. */
interface ConnectorPool {
  readonly baseUrl: string;
  readonly allowsPrivateAddress: boolean;
  readonly timeouts: UpstreamOptions;
  readonly path: string;
  readonly nativePath: string;
  readonly hostname: string;
  /** With the port, unless it is that of the protocol. */
  readonly host: string;
  readonly connections: HttpPool;
  inFlight: number;
  usedAtMs: number;
}

class PoolPermit implements UpstreamPermit {
  readonly #pool: ConnectorPool;

  constructor(pool: ConnectorPool) {
    this.#pool = pool;
    pool.inFlight++;
  }

  send(
    { method, path, isNative = false, headers, body }: UpstreamRequest,
    cancellation: Cancellation,
    beforeSending?: () => void,
    identified?: Pick<Identified, 'token' | 'answerTo'>,
  ): Promise<UpstreamResponse> {
    const { allowsPrivateAddress, hostname, path: basePath, nativePath, connections } = this.#pool;
    try {
      if (!allowsPrivateAddress) assertPublic(hostname);
    } catch (error) {
      this.release();
      return Promise.reject(error);
    }
    const request = {
      method,
      path: (isNative ? nativePath : basePath) + path,
      headers,
      body,
    };
    const exchange = new HttpExchange(cancellation, this, beforeSending, identified?.token);
    return exchange.begin(connections, request, identified?.answerTo?.(exchange));
  }

  release(): void {
    this.#pool.inFlight--;
  }
}

/** A permit for a connector whose identity is computed. Nothing goes out without it. */
class IdentifiedPermit implements UpstreamPermit {
  readonly #pool: ConnectorPool;
  readonly #permit: PoolPermit;
  readonly #identity: ConnectorIdentity;
  readonly #provider: string;

  constructor(pool: ConnectorPool, identity: ConnectorIdentity, provider: string) {
    this.#pool = pool;
    this.#permit = new PoolPermit(pool);
    this.#identity = identity;
    this.#provider = provider;
  }

  /** As fast as with a static key while a token is held. */
  send(
    request: UpstreamRequest,
    cancellation: Cancellation,
    beforeSending?: () => void,
  ): Promise<UpstreamResponse> {
    let now: Identified | undefined;
    try {
      now = this.#identifyNow(request);
    } catch (error) {
      this.release();
      return Promise.reject(new NeverSentError(error));
    }
    return now
      ? this.#permit.send(now.identified, cancellation, beforeSending, now)
      : this.#sendLater(request, cancellation, beforeSending);
  }

  async #sendLater(
    request: UpstreamRequest,
    cancellation: Cancellation,
    beforeSending?: () => void,
  ): Promise<UpstreamResponse> {
    const later = await this.#identify(request).catch((error) => {
      this.release();
      throw new NeverSentError(error);
    });
    return await this.#permit.send(later.identified, cancellation, beforeSending, later);
  }

  release(): void {
    this.#permit.release();
  }

  /** Undefined if there is something to wait for. */
  #identifyNow(request: UpstreamRequest): Identified | undefined {
    const identity = this.#identity;
    if (identity.kind === 'token') {
      const token = identity.tokens.held();
      return token === undefined ? undefined : bearing(request, token);
    }
    if (identity.kind === 'aws') return undefined;
    const held = identity.tokens.held();
    return held && predicting(request, held, identity.location);
  }

  async #identify(request: UpstreamRequest): Promise<Identified> {
    const identity = this.#identity;
    if (identity.kind === 'token') {
      return bearing(request, await this.#tokenOf(() => identity.tokens.get()));
    }
    if (identity.kind === 'google') {
      return predicting(request, await this.#tokenOf(() => identity.tokens.get()), identity.location);
    }
    const credentials = await this.#tokenOf(() => identity.tokens.get());
    const signed = await signedInvocation(request, this.#pool, { identity, credentials });
    return { token: credentials.accessKeyId, ...signed };
  }

  async #tokenOf<Value>(get: () => Value | Promise<Value>): Promise<Value> {
    try {
      return await get();
    } catch (error) {
      throw unidentifiedError(error, this.#provider);
    }
  }
}

function openPool({ baseUrl, allowPrivateAddress }: Connector, timeouts: UpstreamOptions): ConnectorPool {
  const url = new URL(baseUrl);
  const { pathname, hostname, host } = url;
  const connections = new HttpPool(url, {
    ...timeouts,
    ...(!allowPrivateAddress && { lookup: publicLookup }),
  });
  return {
    baseUrl,
    allowsPrivateAddress: allowPrivateAddress,
    timeouts,
    path: pathname.replace(/\/$/, ''),
    nativePath: pathname.replace(/(\/openai)?\/?$/, ''),
    hostname,
    host,
    connections,
    inFlight: 0,
    usedAtMs: 0,
  };
}

function assertPublic(hostname: string): void {
  try {
    assertPublicHost(hostname);
  } catch (error) {
    throw new NeverSentError(error);
  }
}

/** The connector's own time-outs, if it has any. */
function timeoutsOf(connector: Connector, options: UpstreamOptions): UpstreamOptions {
  return {
    connectTimeoutMs: connector.connectTimeoutMs ?? options.connectTimeoutMs,
    firstByteTimeoutMs: connector.firstByteTimeoutMs ?? options.firstByteTimeoutMs,
    chunkTimeoutMs: connector.chunkTimeoutMs ?? options.chunkTimeoutMs,
  };
}

function hasSettings(pool: ConnectorPool, connector: Connector, timeouts: UpstreamOptions): boolean {
  return (
    pool.baseUrl === connector.baseUrl &&
    pool.allowsPrivateAddress === connector.allowPrivateAddress &&
    pool.timeouts.connectTimeoutMs === timeouts.connectTimeoutMs &&
    pool.timeouts.firstByteTimeoutMs === timeouts.firstByteTimeoutMs &&
    pool.timeouts.chunkTimeoutMs === timeouts.chunkTimeoutMs
  );
}
