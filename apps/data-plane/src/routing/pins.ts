import { LRUCache } from 'lru-cache';
import type { Target, Targets } from '../control/target.ts';
import type { ConnectorHealth } from '../upstream/health.ts';
import type { Pin, PinStore } from './pinStore.ts';

/** A request of a session, which is to go where the session's first one went. */
interface PinRequest {
  readonly key: string;
  /** Where it would go without a pin, in the order in which to try. */
  readonly targets: Targets;
  /** The target of a pin, where the request may go there, whatever the order says by now; undefined where it may not. */
  readonly find: (modelId: string, connectorId: string) => Target | undefined;
}

export interface Decided {
  /** The session's target first. */
  readonly targets: Targets;
  /** To be called with the target that answered. */
  readonly served: (target: Target) => void;
}

/** `new` and `moved` were written by this proxy, `stored` was read, `known` held; `unstored` is this proxy's own choice. */
export type PinResult = 'new' | 'stored' | 'known' | 'moved' | 'unstored';

export interface PinsDeps {
  readonly store: PinStore;
  readonly health: Pick<ConnectorHealth, 'isReady' | 'downForMs'>;
  /** How long the store keeps a pin after it was written. */
  readonly ttlMs: number;
  /** How long one request waits for the store. */
  readonly timeoutMs: number;
  readonly clockMs: () => number;
  readonly onDecided: (result: PinResult) => void;
  readonly onStoreError: (error: unknown) => void;
}

/** Keeps each session on one target, over all proxies. */
export interface Pins {
  /** Never rejects: without the store, the order of the targets decides. */
  decide(request: PinRequest): Promise<Decided>;
}

/** What this proxy knows of a session's pin. */
interface Known {
  readonly pin: Pin;
  /** Undefined where it could not be stored yet. */
  readonly revision: number | undefined;
  /** When it was last looked up in the store. */
  checkedAtMs: number;
  uses: number;
}

/** So long a target has to be down before its sessions leave it. */
export const DOWN_MS = 30_000;
/** So old may be what a proxy knows of a pin that another one moved. */
export const RECHECK_MS = 30_000;
const MAX_KNOWN = 50_000;

/**
 * The first request of a session writes where it goes, by compare-and-set: of two proxies that see first requests at once,
 * the one that loses goes where the winner does. The second request on a proxy reads again; later ones go by what the proxy
 * knows, which it checks every half a minute and renews each quarter of the time that the store keeps it. A pin breaks
 * where its target may not be asked any more, or has been down for long. Then it moves, once: over the revision that broke.
 */
export function createPins(deps: PinsDeps): Pins {
  const { store, health, ttlMs, timeoutMs, clockMs, onDecided, onStoreError } = deps;
  const known = new LRUCache<string, Known>({ max: MAX_KNOWN });

  const keep = (key: string, { pin, revision }: Pick<Known, 'pin' | 'revision'>): Known => {
    const kept = { pin, revision, checkedAtMs: clockMs(), uses: known.get(key)?.uses ?? 0 };
    known.set(key, kept);
    return kept;
  };
  const targetOf = ({ pin }: Known, { find }: PinRequest): Target | undefined => {
    const target = find(pin.modelId, pin.connectorId);
    return target && health.downForMs(target.connector) < DOWN_MS ? target : undefined;
  };
  const firstReady = (targets: readonly Target[]): Target | undefined =>
    targets.find(({ connector }) => health.isReady(connector)) ?? targets[0];

  async function write(key: string, target: Target, over: number | undefined) {
    const { isOwn, ...stored } = await store.write(key, placeOf(target), over);
    return { pinned: keep(key, stored), isOwn };
  }

  /** What the store holds, written where it holds nothing. */
  async function look(request: PinRequest, before: Known | undefined): Promise<Settled> {
    const { key, targets } = request;
    const stored = await store.read(key);
    if (stored) {
      const result = stored.revision === before?.revision ? 'known' : 'stored';
      return { pinned: keep(key, stored), result };
    }
    const first = (before && targetOf(before, request)) ?? firstReady(targets) ?? targets[0];
    const { pinned, isOwn } = await write(key, first, undefined);
    return { pinned, result: isOwn ? 'new' : 'stored' };
  }

  /** Of the proxies that see a pin broken one writes where the session goes on, and the others follow. */
  async function move(request: PinRequest, broken: Known, before: Known | undefined): Promise<Settled> {
    const others = request.targets.filter((target) => !leadsTo(broken.pin, target));
    // Where the store was away, this proxy may have sent the session elsewhere already.
    const next = (before && targetOf(before, request)) ?? firstReady(others);
    if (!next) return { pinned: broken, result: 'known' };
    const { pinned, isOwn } = await write(request.key, next, broken.revision);
    return { pinned, result: isOwn ? 'moved' : 'stored' };
  }

  async function settle(request: PinRequest): Promise<Settled> {
    const found = known.get(request.key);
    const before = found && clockMs() - found.pin.writtenAtMs < ttlMs ? found : undefined;
    // One that breaks here may have been moved by another proxy.
    if (before?.revision !== undefined && before.uses > 1 && targetOf(before, request)) {
      return { pinned: before, result: 'known' };
    }
    const settled = await look(request, before);
    return targetOf(settled.pinned, request) ? settled : await move(request, settled.pinned, before);
  }

  /** Without the store: what this proxy knows, else its own choice, which it stores once it can. */
  function settleAlone(request: PinRequest): Settled {
    const { key, targets } = request;
    const before = known.get(key);
    if (before && targetOf(before, request)) return { pinned: before, result: 'unstored' };
    const pin = { ...placeOf(firstReady(targets) ?? targets[0]), writtenAtMs: clockMs() };
    return { pinned: keep(key, { pin, revision: undefined }), result: 'unstored' };
  }

  /** Keeps a pin that is in use from expiring, and learns whether another proxy moved it. Nobody waits for that. */
  function refresh(key: string, pinned: Known, target: Target): void {
    const isDue = clockMs() - pinned.pin.writtenAtMs >= ttlMs / 4;
    if (!isDue && clockMs() - pinned.checkedAtMs < RECHECK_MS) return;
    pinned.checkedAtMs = clockMs();
    const refreshed = isDue
      ? write(key, target, pinned.revision)
      : store.read(key).then((stored) => stored && keep(key, stored));
    refreshed.catch(onStoreError);
  }

  return {
    async decide(request) {
      const { key, targets } = request;
      const { pinned, result } = await within(timeoutMs, settle(request)).catch((error) => {
        onStoreError(error);
        return settleAlone(request);
      });
      pinned.uses++;
      onDecided(result);
      const target = targetOf(pinned, request);
      if (!target) return { targets, served: () => {} };
      if (result === 'known') refresh(key, pinned, target);
      return {
        targets: [target, ...targets.filter((other) => !leadsTo(pinned.pin, other))],
        served(by) {
          // Whoever moves a session moves it to what serves it.
          if (result !== 'moved' || leadsTo(pinned.pin, by)) return;
          write(key, by, pinned.revision).catch(onStoreError);
        },
      };
    },
  };
}

interface Settled {
  readonly pinned: Known;
  readonly result: PinResult;
}

function placeOf({ model, connector }: Target): Pick<Pin, 'modelId' | 'connectorId'> {
  return { modelId: model.id, connectorId: connector.id };
}

function leadsTo(pin: Pin, { model, connector }: Target): boolean {
  return pin.modelId === model.id && pin.connectorId === connector.id;
}

async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
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
