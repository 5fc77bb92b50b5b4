/**
 * What the account of a connector may get within a minute, over all proxies. A vendor's minute may begin at any time, so the limit holds
 * in any 60 seconds: time is cut into slots, and what was granted in a slot counts until no such minute touches it any more.
 */

export const SLOT_MS = 5_000;
/** 60 seconds, which begin in the middle of a slot, touch so many. */
export const SLOTS = 60_000 / SLOT_MS + 1;
/** 0 to this; a higher one goes first. */
export const MAX_PRIORITY = 9;
/** The most waiting requests in one call. */
export const MAX_WAITING_PER_CALL = 100;
/** A proxy that waits calls again in time; one that does not has gone, and its requests hold up no others. */
const FORGET_WAITING_AFTER_MS = 2_000;
/** Room is free, but requests of a higher priority wait for it at other proxies: they call within this. */
const YIELD_MS = 250;

/** Undefined: not limited. */
export interface AccountLimits {
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
}

export interface AccountAmounts {
  readonly requests: number;
  readonly tokens: number;
}

/** What became of requests that were granted in a slot: more or fewer than the grant said. */
export interface AccountCorrection extends AccountAmounts {
  readonly slot: number;
}

/** What the vendor says is left of its own limits, each from now until it is reset; undefined: it does not say. */
export interface VendorLeft {
  readonly requests?: { readonly left: number; readonly resetMs: number } | undefined;
  readonly tokens?: { readonly left: number; readonly resetMs: number } | undefined;
}

interface LeftUntil {
  readonly left: number;
  readonly untilMs: number;
}

interface WaitingRequest {
  readonly priority: number;
  readonly tokens: number;
  /** It waits on if it is granted nothing now. */
  readonly stays: boolean;
}

export interface AccountCall {
  readonly producerId: string;
  /** The requests that wait for the account at this proxy, in their order: a higher priority first. */
  readonly waiting: readonly WaitingRequest[];
  readonly corrections: readonly AccountCorrection[];
  readonly vendorLeft: VendorLeft | undefined;
  /** The vendor refused a request for its limits, and may do so for this long; 0 if it did not. */
  readonly refusedMs: number;
}

/** The state of an account, as it is stored. */
export interface AccountWindow {
  /** The newest slot, and what was granted in it and in those before it, newest first. */
  readonly slot: number;
  readonly granted: readonly AccountAmounts[];
  readonly vendorLeft?:
    | {
        readonly requests?: LeftUntil | undefined;
        readonly tokens?: LeftUntil | undefined;
      }
    | undefined;
  /** Until then the vendor refuses requests. */
  readonly refusedUntilMs?: number;
  /** By proxy: what it waits for in each priority, and until when that counts. */
  readonly waiting: Readonly<
    Record<string, { readonly untilMs: number; readonly wanted: readonly AccountAmounts[] }>
  >;
}

export interface AccountGrant {
  readonly slot: number;
  /** How many of the waiting requests may go, from the first. */
  readonly granted: number;
  /** What is left for any proxy. */
  readonly left: AccountLimits;
  /** When to ask again for the first that was granted nothing; 0 if all may go. */
  readonly retryMs: number;
}

export const NEW_WINDOW: AccountWindow = { slot: 0, granted: [], waiting: {} };
const NOTHING: AccountAmounts = { requests: 0, tokens: 0 };

/** Grants what is free to the waiting requests of a call, in their order, unless others of a higher priority wait elsewhere. */
export function decideAccount(
  before: AccountWindow,
  limits: AccountLimits,
  call: AccountCall,
  nowMs: number,
): { readonly window: AccountWindow; readonly grant: AccountGrant } {
  const slot = Math.max(before.slot, Math.floor(nowMs / SLOT_MS));
  const known: Granted = {
    slot,
    granted: corrected(turned(before, slot), slot, call.corrections),
    vendorLeft: vendorLeftAt(before, call, nowMs),
    refusedUntilMs: Math.max(
      before.refusedUntilMs ?? 0,
      call.refusedMs > 0 ? nowMs + Math.min(call.refusedMs, MAX_RETRY_MS) : 0,
    ),
  };
  const elsewhere = Object.fromEntries(
    Object.entries(before.waiting).filter(
      ([producerId, { untilMs }]) => producerId !== call.producerId && untilMs > nowMs,
    ),
  );
  const free = freeAt(known, limits, nowMs);
  let taken = NOTHING;
  let isYielding = false;
  for (const { priority, tokens } of call.waiting) {
    const wanted = plus(taken, { requests: 1, tokens });
    if (!fits(wanted, free)) break;
    const before = Object.values(elsewhere).flatMap((proxy) => proxy.wanted.slice(priority + 1));
    isYielding = !fits(plus(wanted, sumOf(before)), free);
    if (isYielding) break;
    taken = wanted;
  }
  const after = withGrant(known, taken);
  const next = call.waiting[taken.requests];
  const stay = call.waiting.slice(taken.requests).filter(({ stays }) => stays);
  const retryMs = !next ? 0 : isYielding ? YIELD_MS : untilFits(next.tokens, after, limits, nowMs);
  const untilMs = nowMs + retryMs + FORGET_WAITING_AFTER_MS;
  return {
    window: {
      ...after,
      waiting:
        stay.length > 0
          ? { ...elsewhere, [call.producerId]: { untilMs, wanted: byPriority(stay) } }
          : elsewhere,
    },
    grant: { slot, granted: taken.requests, left: leftOf(limits, minus(free, taken)), retryMs },
  };
}

type Granted = Omit<AccountWindow, 'waiting'>;

function withGrant(
  { granted: [newest = NOTHING, ...older], vendorLeft, ...rest }: Granted,
  taken: AccountAmounts,
): Granted {
  return {
    ...rest,
    granted: [plus(newest, taken), ...older],
    vendorLeft: {
      requests: without(vendorLeft?.requests, taken.requests),
      tokens: without(vendorLeft?.tokens, taken.tokens),
    },
  };
}

function without(said: LeftUntil | undefined, taken: number): LeftUntil | undefined {
  return said && { ...said, left: said.left - taken };
}

function byPriority(waits: readonly WaitingRequest[]): AccountAmounts[] {
  return Array.from({ length: MAX_PRIORITY + 1 }, (_, priority) =>
    sumOf(waits.filter((one) => one.priority === priority).map(({ tokens }) => ({ requests: 1, tokens }))),
  );
}

function leftOf({ requests, tokens }: AccountLimits, free: AccountAmounts): AccountLimits {
  return {
    requests: requests === undefined ? undefined : Math.max(0, free.requests),
    tokens: tokens === undefined ? undefined : Math.max(0, free.tokens),
  };
}

/** The slots that still count once `slot` is the newest. */
function turned({ slot: before, granted }: AccountWindow, slot: number): AccountAmounts[] {
  const gone = Math.min(SLOTS, slot - before);
  const turned = [...Array.from({ length: gone }, () => NOTHING), ...granted].slice(0, SLOTS);
  return turned.length > 0 ? turned : [NOTHING];
}

/** A correction counts in the slot of its grant, so that both are forgotten together. */
function corrected(
  slots: readonly AccountAmounts[],
  slot: number,
  corrections: readonly AccountCorrection[],
): AccountAmounts[] {
  const result = [...slots];
  for (const correction of corrections) {
    const at = slot - correction.slot;
    const of = result[at];
    if (!of) continue;
    const { requests, tokens } = plus(of, correction);
    result[at] = { requests: Math.max(0, requests), tokens: Math.max(0, tokens) };
  }
  return result;
}

/** The newest word of the vendor counts, until its limit is reset. */
function vendorLeftAt(
  { vendorLeft }: AccountWindow,
  call: AccountCall,
  nowMs: number,
): Granted['vendorLeft'] {
  const of = (unit: 'requests' | 'tokens') => {
    const said = call.vendorLeft?.[unit];
    return said
      ? { left: said.left, untilMs: nowMs + Math.min(said.resetMs, MAX_RETRY_MS) }
      : vendorLeft?.[unit];
  };
  return { requests: of('requests'), tokens: of('tokens') };
}

/** What is free at a time, if nothing else is granted until then. */
function freeAt(known: Granted, limits: AccountLimits, atMs: number): AccountAmounts {
  const { slot, granted, vendorLeft, refusedUntilMs = 0 } = known;
  if (refusedUntilMs > atMs) return NOTHING;
  const used = sumOf(granted.filter((_, age) => endOf(slot, age) > atMs));
  const free = (unit: 'requests' | 'tokens') => {
    const said = vendorLeft?.[unit];
    const byVendor = said && said.untilMs > atMs ? said.left : UNLIMITED;
    return Math.min((limits[unit] ?? UNLIMITED) - used[unit], byVendor);
  };
  return { requests: free('requests'), tokens: free('tokens') };
}

const UNLIMITED = Number.MAX_SAFE_INTEGER;

/** When a slot no longer counts. */
const endOf = (slot: number, age: number) => (slot - age + SLOTS) * SLOT_MS;

function fits(wanted: AccountAmounts, free: AccountAmounts): boolean {
  return wanted.requests <= free.requests && wanted.tokens <= free.tokens;
}

/** How long until a request with these tokens fits. */
function untilFits(tokens: number, known: Granted, limits: AccountLimits, nowMs: number): number {
  const { slot, granted, vendorLeft, refusedUntilMs = 0 } = known;
  const changes = [
    ...granted.map((_, age) => endOf(slot, age)),
    vendorLeft?.requests?.untilMs ?? 0,
    vendorLeft?.tokens?.untilMs ?? 0,
    refusedUntilMs,
  ];
  const fitting = changes.filter(
    (atMs) => atMs > nowMs && fits({ requests: 1, tokens }, freeAt(known, limits, atMs)),
  );
  return Math.ceil(Math.min(MAX_RETRY_MS, Math.min(...fitting) - nowMs));
}

const MAX_RETRY_MS = SLOTS * SLOT_MS;

function plus(one: AccountAmounts, other: AccountAmounts): AccountAmounts {
  return { requests: one.requests + other.requests, tokens: one.tokens + other.tokens };
}

function minus(one: AccountAmounts, other: AccountAmounts): AccountAmounts {
  return { requests: one.requests - other.requests, tokens: one.tokens - other.tokens };
}

function sumOf(amounts: readonly AccountAmounts[]): AccountAmounts {
  return amounts.reduce(plus, NOTHING);
}
