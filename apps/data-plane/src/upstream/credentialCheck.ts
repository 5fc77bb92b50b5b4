import { Dialect as ProtoDialect } from '@weighbridge/contracts';
import type { RoutableConnector } from '@weighbridge/state';
import type { Dialect } from '../formats/operation.ts';
import { Cancellation } from './cancellation.ts';
import type { ConnectorHealth } from './connectorHealth.ts';
import { upstreamHeaders } from './headers.ts';
import type { UpstreamResponse } from './httpExchange.ts';
import type { Upstreams } from './upstreams.ts';
import { isPartialRight, refusedFor } from './vendorRefusal.ts';

export interface CredentialCheckDeps {
  readonly upstreams: Pick<Upstreams, 'acquirePermit'>;
  readonly health: ConnectorHealth;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Called for each refusal of which it is unclear whether it is about the credential. */
  readonly onSuspected: (connector: RoutableConnector, status: number) => void;
  /** The vendor refuses the credential, whoever uses it: the connector is dead. */
  readonly onConfirmed: (connector: RoutableConnector, status: number) => void;
}

/** A vendor that accepted a request with the credential this recently knows it. */
const PROVEN_MS = 60_000;
const PROBE_EVERY_MS = 30_000;
const PROBE_TIMEOUT_MS = 5_000;
const MAX_PROBE_BYTES = 64 * 1024;
/** Where no probe can tell, refusals of several principals, or for long, with nothing accepted between them. */
const SEVERAL_PRINCIPALS = 3;
const LONG_REFUSALS = 5;
const LONG_MS = 60_000;

interface Suspicion {
  readonly principals: Set<string>;
  refusals: number;
  sinceMs: number;
  probedAtMs: number;
}

/**
 * Finds out whether a refusal that a request may have provoked is about the credential, so that no tenant can take a connector
 * from the others: by the vendor's list of models, which any key may read, or by what other principals are told.
 */
export class CredentialCheck {
  readonly #deps: CredentialCheckDeps;
  readonly #suspicions = new WeakMap<RoutableConnector, Suspicion>();

  constructor(deps: CredentialCheckDeps) {
    this.#deps = deps;
  }

  /** A request of this principal was refused, and it is unclear why. Returns at once. */
  suspect(part: RoutableConnector, status: number, principalId: string): void {
    const connector = part.whole ?? part;
    const { health, nowMs, onSuspected } = this.#deps;
    onSuspected(connector, status);
    const now = nowMs();
    if (health.wasAccepted(connector, PROVEN_MS)) return void this.#suspicions.delete(connector);
    const suspicion = this.#suspicions.get(connector) ?? newSuspicion(now);
    this.#suspicions.set(connector, suspicion);
    if (suspicion.principals.size < SEVERAL_PRINCIPALS) suspicion.principals.add(principalId);
    suspicion.refusals++;
    // An account without money may still list models.
    if (status === 402) this.#confirmIfLasting(connector, status, suspicion);
    else if (now - suspicion.probedAtMs >= PROBE_EVERY_MS) {
      suspicion.probedAtMs = now;
      void this.#probe(connector).then((result) => this.#conclude(connector, status, suspicion, result));
    }
  }

  #conclude(
    connector: RoutableConnector,
    status: number,
    suspicion: Suspicion,
    result: 'accepted' | 'refused' | undefined,
  ): void {
    const { health } = this.#deps;
    if (result === 'accepted') {
      this.#suspicions.delete(connector);
      health.accept(connector);
    } else if (result === 'refused') this.#confirm(connector, status);
    else this.#confirmIfLasting(connector, status, suspicion);
  }

  #confirmIfLasting(connector: RoutableConnector, status: number, suspicion: Suspicion): void {
    const { principals, refusals, sinceMs } = suspicion;
    const isLong = refusals >= LONG_REFUSALS && this.#deps.nowMs() - sinceMs >= LONG_MS;
    if (isLong || principals.size >= SEVERAL_PRINCIPALS) this.#confirm(connector, status);
  }

  #confirm(connector: RoutableConnector, status: number): void {
    const { health, onConfirmed } = this.#deps;
    // Meanwhile it may have accepted another request.
    if (health.wasAccepted(connector, PROVEN_MS)) return;
    health.reject(connector);
    onConfirmed(connector, status);
  }

  /** Undefined if the answer does not tell. Never rejects. */
  async #probe(connector: RoutableConnector): Promise<'accepted' | 'refused' | undefined> {
    const cancellation = new Cancellation();
    const timer = setTimeout(() => cancellation.cancel(), PROBE_TIMEOUT_MS);
    try {
      const options = { dialect: dialectOf(connector), connector, plain: true, hasBody: false };
      const headers = upstreamHeaders({}, options);
      const permit = this.#deps.upstreams.acquirePermit(connector);
      const request = { method: 'GET', path: '/models', headers, body: undefined } as const;
      return await verdictOn(await permit.send(request, cancellation));
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }
}

async function verdictOn({ status, body }: UpstreamResponse): Promise<'accepted' | 'refused' | undefined> {
  if (status !== 400 && status !== 401 && status !== 403) {
    body.destroy();
    return status >= 200 && status < 300 ? 'accepted' : undefined;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  await body.forEachChunk((chunk) => {
    bytes += chunk.length;
    if (bytes > MAX_PROBE_BYTES) body.destroy();
    else chunks.push(chunk);
    return undefined;
  });
  const text = Buffer.concat(chunks).toString('utf8');
  // There is nothing in the probe that a vendor could forbid, but a key may be limited to other parts of the API.
  if (isPartialRight(text)) return undefined;
  return refusedFor(status, text) === 'request' ? undefined : 'refused';
}

function newSuspicion(nowMs: number): Suspicion {
  return {
    principals: new Set(),
    refusals: 0,
    sinceMs: nowMs,
    probedAtMs: Number.NEGATIVE_INFINITY,
  };
}

const DIALECTS: Readonly<Partial<Record<ProtoDialect, Dialect>>> = {
  [ProtoDialect.ANTHROPIC]: 'anthropic',
};

function dialectOf({ dialect }: RoutableConnector): Dialect {
  return DIALECTS[dialect] ?? 'openai';
}
