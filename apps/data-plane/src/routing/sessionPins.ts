import { LRUCache } from 'lru-cache';
import type { Target, Targets } from '../control/target.ts';
import type { ConnectorHealth } from '../upstream/connectorHealth.ts';
import type { Pin, PinStore } from './pinStore.ts';

/** A request of a session, which goes where the session's first request went. */
interface PinRequest {
  readonly key: string;
  /** The key of the pin for its route, where the session's target does not serve that. */
  readonly routeKey: string;
  /** Where it would go without a pin, in order of preference. */
  readonly targets: Targets;
  /** The target of a pin, whether it is still among `targets` or not; undefined if the request may not go there. */
  readonly find: (modelId: string, connectorId: string) => Target | undefined;
  /** Whether a target serves the route of the request; all of `targets` do. */
  readonly serves: (target: Target) => boolean;
}

/** A request with the one pin that applies to it. */
type OnePin = Pick<PinRequest, 'key' | 'targets' | 'find'>;

export interface PinDecision {
  /** The session's target first. */
  readonly targets: Targets;
  /** To be called with the target that answered. */
  readonly savePin: (target: Target) => void;
}

/**
 * `new` and `moved`: written by this proxy. `stored`: read from the store. `known`: held by this proxy. `unstored`: chosen
 * by this proxy without the store.
 */
export type PinResult = 'new' | 'stored' | 'known' | 'moved' | 'unstored';

export interface SessionPinsDeps {
  readonly store: PinStore;
  readonly health: Pick<ConnectorHealth, 'isReady' | 'downForMs'>;
  /** How long the store retains a pin after it was written. */
  readonly ttlMs: number;
  /** How long a request waits for the store. */
  readonly timeoutMs: number;
  readonly clockMs: () => number;
  readonly onDecided: (result: PinResult) => void;
  readonly onStoreError: (error: unknown) => void;
}

/** Routes all requests of a session to one target, across all proxies. */
export interface SessionPins {
  /** Never rejects: without the store, the order of the targets decides. */
  decide(request: PinRequest): Promise<PinDecision>;
}

/** This proxy's copy of a session's pin. */
interface LocalPin {
  readonly pin: Pin;
  /** Undefined until it is stored. */
  readonly revision: number | undefined;
  /** When it was last read from the store. */
  checkedAtMs: number;
  uses: number;
}

interface ResolvedPin {
  readonly local: LocalPin;
  readonly result: PinResult;
}

interface FoundPin extends ResolvedPin {
  readonly target: Target | undefined;
}

/** A session leaves a target that has been down for this long. */
export const DOWN_MS = 30_000;
/** The maximum age of a local copy: another proxy may have moved the pin. */
export const RECHECK_MS = 30_000;
const MAX_LOCAL_PINS = 50_000;

/**
 * The first request of a session writes its pin by compare-and-set: of two proxies with concurrent first requests, the
 * loser follows the winner. The second request on a proxy reads the store again. Later requests use the local copy, which
 * is checked every `RECHECK_MS` and renewed every quarter of `ttlMs`. A pin breaks if its target is not allowed any more,
 * or has been down for `DOWN_MS`; the session then moves once, by an update of the broken revision. A route that the target
 * does not serve has its own pin: the session stays for its other routes.
 */
export function createSessionPins(deps: SessionPinsDeps): SessionPins {
  return new StoredPins(deps);
}

class StoredPins implements SessionPins {
  readonly #deps: SessionPinsDeps;
  readonly #localPins = new LRUCache<string, LocalPin>({ max: MAX_LOCAL_PINS });

  constructor(deps: SessionPinsDeps) {
    this.#deps = deps;
  }

  async decide(request: PinRequest): Promise<PinDecision> {
    const pinned = await this.#find(request);
    const { serves } = request;
    if (!pinned.target || serves(pinned.target)) return this.#decide(request, pinned);
    const ofRoute: OnePin = {
      key: request.routeKey,
      targets: request.targets,
      find: (modelId, connectorId) => {
        const target = request.find(modelId, connectorId);
        return target && serves(target) ? target : undefined;
      },
    };
    return this.#decide(ofRoute, await this.#find(ofRoute));
  }

  /** Finds the pin, or writes it. */
  async #find(request: OnePin): Promise<FoundPin> {
    const { timeoutMs, onStoreError } = this.#deps;
    const { local, result } = await withTimeout(timeoutMs, this.#resolve(request)).catch((error) => {
      onStoreError(error);
      return this.#resolveLocally(request);
    });
    local.uses++;
    const target = this.#targetOf(local, request);
    if (target && result === 'known') this.#refresh(request.key, local, target);
    return { local, result, target };
  }

  #decide({ key, targets }: OnePin, { local, result, target }: FoundPin): PinDecision {
    const { onDecided, onStoreError } = this.#deps;
    onDecided(result);
    if (!target) return { targets, savePin: () => {} };
    return {
      targets: [target, ...targets.filter((other) => !pointsTo(local.pin, other))],
      savePin: (by) => {
        // A moved session is pinned to the target that really served it.
        if (result !== 'moved' || pointsTo(local.pin, by)) return;
        this.#write(key, by, local.revision).catch(onStoreError);
      },
    };
  }

  async #resolve(request: OnePin): Promise<ResolvedPin> {
    const { clockMs, ttlMs } = this.#deps;
    const found = this.#localPins.get(request.key);
    const before = found && clockMs() - found.pin.writtenAtMs < ttlMs ? found : undefined;
    // Only while its target works: another proxy may have moved a pin that is broken here.
    if (before?.revision !== undefined && before.uses > 1 && this.#targetOf(before, request)) {
      return { local: before, result: 'known' };
    }
    const resolved = await this.#readOrCreate(request, before);
    return this.#targetOf(resolved.local, request)
      ? resolved
      : await this.#move(request, resolved.local, before);
  }

  /** Without the store: the local copy, else this proxy's choice, which is stored later. */
  #resolveLocally(request: OnePin): ResolvedPin {
    const { key, targets } = request;
    const before = this.#localPins.get(key);
    if (before && this.#targetOf(before, request)) return { local: before, result: 'unstored' };
    const pin = { ...idsOf(this.#firstReady(targets) ?? targets[0]), writtenAtMs: this.#deps.clockMs() };
    return { local: this.#remember(key, { pin, revision: undefined }), result: 'unstored' };
  }

  /** Reads the pin, and writes one if there is none. */
  async #readOrCreate(request: OnePin, before: LocalPin | undefined): Promise<ResolvedPin> {
    const { key, targets } = request;
    const stored = await this.#deps.store.read(key);
    if (stored) {
      const result = stored.revision === before?.revision ? 'known' : 'stored';
      return { local: this.#remember(key, stored), result };
    }
    const first = (before && this.#targetOf(before, request)) ?? this.#firstReady(targets) ?? targets[0];
    const { local, isOwn } = await this.#write(key, first, undefined);
    return { local, result: isOwn ? 'new' : 'stored' };
  }

  /** Of the proxies that find a pin broken, one writes its successor and the others follow. */
  async #move(request: OnePin, broken: LocalPin, before: LocalPin | undefined): Promise<ResolvedPin> {
    const others = request.targets.filter((target) => !pointsTo(broken.pin, target));
    // While the store was away, this proxy may have moved the session already.
    const next = (before && this.#targetOf(before, request)) ?? this.#firstReady(others);
    if (!next) return { local: broken, result: 'known' };
    const { local, isOwn } = await this.#write(request.key, next, broken.revision);
    return { local, result: isOwn ? 'moved' : 'stored' };
  }

  /** In the background: renews a pin in use before it expires, and learns whether another proxy moved it. */
  #refresh(key: string, local: LocalPin, target: Target): void {
    const { store, ttlMs, clockMs, onStoreError } = this.#deps;
    const isDue = clockMs() - local.pin.writtenAtMs >= ttlMs / 4;
    if (!isDue && clockMs() - local.checkedAtMs < RECHECK_MS) return;
    local.checkedAtMs = clockMs();
    const refreshed = isDue
      ? this.#write(key, target, local.revision)
      : store.read(key).then((stored) => stored && this.#remember(key, stored));
    refreshed.catch(onStoreError);
  }

  async #write(key: string, target: Target, replacedRevision: number | undefined) {
    const { isOwn, ...stored } = await this.#deps.store.write(key, idsOf(target), replacedRevision);
    return { local: this.#remember(key, stored), isOwn };
  }

  #remember(key: string, { pin, revision }: Pick<LocalPin, 'pin' | 'revision'>): LocalPin {
    const uses = this.#localPins.get(key)?.uses ?? 0;
    const local = { pin, revision, checkedAtMs: this.#deps.clockMs(), uses };
    this.#localPins.set(key, local);
    return local;
  }

  /** The target of a pin; undefined if it is not allowed any more, or down for too long. */
  #targetOf({ pin }: LocalPin, { find }: OnePin): Target | undefined {
    const target = find(pin.modelId, pin.connectorId);
    return target && this.#deps.health.downForMs(target.connector) < DOWN_MS ? target : undefined;
  }

  #firstReady(targets: readonly Target[]): Target | undefined {
    return targets.find(({ connector }) => this.#deps.health.isReady(connector)) ?? targets[0];
  }
}

function idsOf({ model, connector }: Target): Pick<Pin, 'modelId' | 'connectorId'> {
  return { modelId: model.id, connectorId: connector.id };
}

function pointsTo(pin: Pin, { model, connector }: Target): boolean {
  return pin.modelId === model.id && pin.connectorId === connector.id;
}

async function withTimeout<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no pin within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
