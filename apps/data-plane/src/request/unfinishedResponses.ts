import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ListUnsettledResponsesResponse,
  SettleResponseResponse_Result as Result,
  type SettleResponseRequestSchema,
  type SettleResponseResponse,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import { type FinalUsage, finalUsage, type ModelIdOf, type RequestTerms } from './finalUsage.ts';
import type { ReadStored } from './readStored.ts';

/** A response that a vendor returned before it finished it. It is charged its reservation until it is settled. */
export interface UnfinishedResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
}

export interface UnfinishedDeps {
  /** Reads a stored response from its vendor. */
  readonly read: ReadStored;
  readonly settle: (
    final: MessageInitShape<typeof SettleResponseRequestSchema>,
  ) => Promise<Pick<SettleResponseResponse, 'result'>>;
  /** For the models that used tokens beside the one that answered, at this connector. */
  readonly modelIdOf: (connectorId: string) => ModelIdOf;
  /** What earlier processes on this spool left unsettled. */
  readonly listUnsettled: () => Promise<Pick<ListUnsettledResponsesResponse, 'responses'>>;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly logger: Logger;
}

/** What became of a response that is to be deleted; `not_maker`: its own proxy will settle it. */
export type SettledNow = 'settled' | 'unfinished' | 'not_maker';

/** The ledger does not have the attempt yet. */
const RETRIED: ReadonlySet<Result> = new Set([Result.PENDING, Result.UNSPECIFIED]);
const FIRST_PAUSE_MS = 2_000;
const MAX_PAUSE_MS = 300_000;
/** No vendor works on a response for longer; then its charge stays. */
const MAX_AGE_MS = 24 * 3_600_000;
/** Longer than the proxy waits that served it, and knows its terms. */
const UNKNOWN_TERMS_PAUSE_MS = MAX_PAUSE_MS + 60_000;
const TICK_MS = 500;
const MAX_CONCURRENT = 4;
/** More are left to the next start, or to the first client that reads them. */
const MAX_WATCHED = 10_000;
/** The control plane lists no more at once. */
const MAX_LISTED = 1_000;
/** How often the ledger is asked again for the attempt of a response that is to be deleted. */
const MAX_PENDING = 20;
/** A vendor that has just made a response may not find it at once. */
const MAX_NOT_FOUND = 5;

interface Watched extends UnfinishedResponse {
  readonly endsAtMs: number;
  readonly terms: RequestTerms | undefined;
  dueAtMs: number;
  pauseMs: number;
  notFound: number;
  isBusy: boolean;
  /** Known, but not settled yet. */
  final: FinalUsage | undefined;
}

/**
 * Learns what background responses used in the end, and settles them: it asks the vendor, less and less often, and is told of
 * what clients read. The control plane settles each once, whoever tells it. One timer, stopped by `close`.
 */
export class UnfinishedResponses {
  readonly #deps: UnfinishedDeps;
  readonly #watched = new Map<string, Watched>();
  readonly #closing = new AbortController();
  #busy = 0;
  #timer: NodeJS.Timeout | undefined;
  #listPauseMs = FIRST_PAUSE_MS;
  /** When the list of earlier processes is asked for; undefined once it was read. */
  #listAtMs: number | undefined;

  constructor(deps: UnfinishedDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#watched.size;
  }

  /** Goes on with what earlier processes on this spool left. */
  start(): void {
    this.#listAtMs = this.#deps.nowMs();
    this.#tickLater();
  }

  /** Asks the vendor until the response is final. `terms`: of its request, if this process served it. */
  watch(response: UnfinishedResponse, terms?: RequestTerms, ageMs = 0): void {
    const key = keyOf(response);
    if (this.#closing.signal.aborted || this.#watched.has(key)) return;
    if (this.#watched.size >= MAX_WATCHED) {
      const { responseId } = response;
      this.#deps.logger.warn(
        { responseId },
        'too many background responses; this one is settled when it is read',
      );
      return;
    }
    const { responseId, connectorId, principalId } = response;
    const nowMs = this.#deps.nowMs();
    this.#watched.set(key, {
      ...{ responseId, connectorId, principalId },
      endsAtMs: nowMs + MAX_AGE_MS - ageMs,
      terms,
      dueAtMs: nowMs + this.#jittered(FIRST_PAUSE_MS),
      pauseMs: FIRST_PAUSE_MS,
      notFound: 0,
      isBusy: false,
      final: undefined,
    });
    this.#tickLater();
  }

  /** To be called with what a response reports, whoever read it. */
  tell(response: UnfinishedResponse, facts: ResponseFacts): void {
    const isServed = this.#watched.has(keyOf(response));
    if (!this.#final(response, facts)) return;
    this.watch(response);
    const watched = this.#watched.get(keyOf(response));
    if (!watched) return;
    watched.final ??= this.#final(response, facts);
    // The proxy that served it goes first: without its terms, the dearest count.
    watched.dueAtMs = this.#deps.nowMs() + (isServed ? 0 : UNKNOWN_TERMS_PAUSE_MS);
  }

  /**
   * Settles a response before it is deleted: afterwards, no one can tell what it cost. Rejects if that can't be known, or be
   * recorded, now.
   */
  async settleNow(response: UnfinishedResponse): Promise<SettledNow> {
    const facts = await this.#deps.read(response, this.#closing.signal);
    if (facts === 'not_found') return 'settled';
    const final = this.#final(response, facts);
    if (!final) return 'unfinished';
    for (let tries = 0; tries < MAX_PENDING; tries++) {
      const result = await this.#settle(response, final);
      if (!RETRIED.has(result)) {
        this.#watched.delete(keyOf(response));
        return result === Result.NOT_MAKER ? 'not_maker' : 'settled';
      }
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    }
    throw new Error('the ledger does not have the attempt yet');
  }

  #final(response: UnfinishedResponse, facts: ResponseFacts): FinalUsage | undefined {
    const terms = this.#watched.get(keyOf(response))?.terms;
    return finalUsage(facts, terms, this.#deps.modelIdOf(response.connectorId));
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watched.clear();
  }

  #tickLater(): void {
    if (this.#timer || this.#closing.signal.aborted) return;
    if (this.#watched.size === 0 && this.#listAtMs === undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#tick();
      this.#tickLater();
    }, TICK_MS);
    // Nothing waits for a background response.
    this.#timer.unref();
  }

  #tick(): void {
    const nowMs = this.#deps.nowMs();
    if (this.#listAtMs !== undefined && nowMs >= this.#listAtMs) void this.#list();
    for (const watched of this.#watched.values()) {
      if (this.#busy >= MAX_CONCURRENT) return;
      if (nowMs >= watched.endsAtMs) this.#watched.delete(keyOf(watched));
      else if (!watched.isBusy && nowMs >= watched.dueAtMs) void this.#advance(watched);
    }
  }

  async #list(): Promise<void> {
    this.#listAtMs = Number.POSITIVE_INFINITY;
    try {
      const { responses } = await this.#deps.listUnsettled();
      for (const { ageMs, ...response } of responses) this.watch(response, undefined, Number(ageMs));
      const isAll = responses.length < MAX_LISTED;
      this.#listAtMs = isAll ? undefined : this.#deps.nowMs() + MAX_PAUSE_MS;
    } catch (error) {
      this.#deps.logger.warn({ why: error }, 'failed to list unsettled responses; trying again');
      this.#listAtMs = this.#deps.nowMs() + this.#jittered(this.#listPauseMs);
      this.#listPauseMs = Math.min(MAX_PAUSE_MS, this.#listPauseMs * 2);
    }
  }

  async #advance(watched: Watched): Promise<void> {
    this.#busy++;
    watched.isBusy = true;
    try {
      watched.final ??= await this.#ask(watched);
      if (watched.final && !RETRIED.has(await this.#settle(watched, watched.final))) {
        // It leaves the map below, unless it was closed meanwhile.
        this.#watched.delete(keyOf(watched));
        return;
      }
    } catch (error) {
      const { responseId, connectorId } = watched;
      this.#deps.logger.debug(
        { err: error, responseId, connectorId },
        'failed to settle a background response',
      );
    } finally {
      this.#busy--;
      watched.isBusy = false;
      watched.dueAtMs = this.#deps.nowMs() + this.#jittered(watched.pauseMs);
      watched.pauseMs = Math.min(MAX_PAUSE_MS, watched.pauseMs * 2);
    }
  }

  /** Undefined if the vendor still works on it. */
  async #ask(watched: Watched): Promise<FinalUsage | undefined> {
    const facts = await this.#deps.read(watched, this.#closing.signal);
    if (facts === 'not_found') {
      watched.notFound++;
      return watched.notFound < MAX_NOT_FOUND ? undefined : GONE;
    }
    watched.notFound = 0;
    return this.#final(watched, facts);
  }

  async #settle(
    { responseId, connectorId, principalId }: UnfinishedResponse,
    final: FinalUsage,
  ): Promise<Result> {
    return (await this.#deps.settle({ responseId, connectorId, principalId, ...final })).result;
  }

  #jittered(ms: number): number {
    return ms * (0.8 + 0.4 * this.#deps.random());
  }
}

/** Deleted before its usage was read: the charge stays. */
const GONE: FinalUsage = { status: 'not_found' };

function keyOf({ connectorId, responseId }: UnfinishedResponse): string {
  return `${connectorId} ${responseId}`;
}
