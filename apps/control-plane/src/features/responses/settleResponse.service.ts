import { create } from '@bufbuild/protobuf';
import { isSigningProducer, TokenUsageSchema } from '@weighbridge/contracts';
import type { Tx } from '@weighbridge/database';
import {
  type Cost,
  costOf,
  decimalUsd,
  type MeteredUsage,
  type ModelPrice,
  type NanoUsd,
  NO_TOKENS,
  newUuid,
  type OtherUsage,
  STANDARD_SERVICE,
  type ToolUses,
  totalInputTokens,
  totalTokens,
} from '@weighbridge/domain';
import {
  type AttemptRow,
  correctedCost,
  detailsColumn,
  detailsOf,
  lockAttempt,
  recordCorrection,
} from '@weighbridge/ledger';
import { MAX_COST_NANO_USD } from '@weighbridge/usage';
import { dearestKnownPrices, newestPriceAt, priceOfVersion } from './attemptPrices.service.ts';
import {
  lockStoredResponse,
  markSettled,
  type StoredResponseRow,
  wasProducerSeen,
} from './responses.repository.ts';
import { MAX_UNSETTLED_MS, type ResponseDeps } from './responses.service.ts';

/** What a vendor says of a response that it will not work on any more. */
export interface FinalResponse {
  readonly responseId: string;
  readonly connectorId: string;
  readonly principalId: string;
  /** Who settles it, proven; undefined: not checked. */
  readonly producerId: string | undefined;
  /** Undefined if the vendor reported none. */
  readonly usage: MeteredUsage | undefined;
  /** What the vendor's tools did, also without usage. */
  readonly toolUses: ToolUses;
  /** What other models used beside `usage`, by their ids in the catalog. */
  readonly others: readonly OtherUsage[];
  /** The model whose price applies instead of that of the attempt; empty if it is the attempt's. */
  readonly pricedModel: string;
  readonly status: string;
}

export type Settlement =
  | ({ readonly kind: 'settled'; readonly correctionNanoUsd: NanoUsd } & Cost)
  /** Settled before; not in the ledger yet; its maker will settle it; no unfinished response, or no one settles it. */
  | { readonly kind: 'already_settled' | 'pending' | 'not_maker' | 'unknown' };

/**
 * Corrects the charge of an unfinished response by what it cost in the end, once: the response is locked, and marked in the
 * transaction that adds the correction. Concurrent and repeated calls change nothing.
 */
export async function settleResponse({ db, now }: ResponseDeps, final: FinalResponse): Promise<Settlement> {
  return await db.transaction().execute(async (tx): Promise<Settlement> => {
    const response = await lockStoredResponse(tx, final.responseId, final.connectorId);
    if (!response?.event_id || response.principal_id !== final.principalId) return { kind: 'unknown' };
    if (response.settled_at) return { kind: 'already_settled' };
    if (!isMaker(final, response.producer_id)) {
      return { kind: (await isAwaited(tx, response, now())) ? 'not_maker' : 'unknown' };
    }
    const attempt = await lockAttempt(tx, response.event_id);
    if (!attempt) return { kind: 'pending' };
    // Whoever claims a response names its attempt, which may be another proxy's.
    if (!isMaker(final, attempt.producer_id)) return { kind: 'unknown' };
    const at = now();
    const cost = await finalCost(tx, attempt, final);
    const correctionNanoUsd = await possibleCorrection(tx, attempt, cost.costNanoUsd);
    const tokens = uncountedTokens(attempt, final);
    if (correctionNanoUsd !== 0n || tokens !== 0n) {
      await recordCorrection(tx, {
        correctionId: newUuid(),
        requestId: attempt.request_id,
        eventId: attempt.event_id,
        amountNanoUsd: correctionNanoUsd,
        tokens,
        reason: reasonOf(final, attempt, cost),
        details: detailsOfFinal(final, attempt, cost),
        now: at,
      });
    }
    await markSettled(tx, response, at);
    return { kind: 'settled', correctionNanoUsd, ...cost };
  });
}

/** A proxy settles its own responses, and those of proxies of release 0.1.0, which have no key. */
function isMaker({ producerId }: FinalResponse, maker: string | null): boolean {
  return producerId === undefined || maker === producerId || maker === null || !isSigningProducer(maker);
}

/** A proxy on a spool that is silent for longer is taken to be gone: what it left unsettled may be deleted. */
const GONE_AFTER_MS = 3_600_000;

/** Whether its maker may still settle a response. */
async function isAwaited(tx: Tx, response: StoredResponseRow, at: Date): Promise<boolean> {
  const { producer_id, created_at } = response;
  if (producer_id === null || at.getTime() - created_at.getTime() >= MAX_UNSETTLED_MS) return false;
  return await wasProducerSeen(tx, producer_id, new Date(at.getTime() - GONE_AFTER_MS));
}

/** What the response cost; the charge of the attempt, and its tools, if the vendor reported no usage. */
async function finalCost(tx: Tx, attempt: AttemptRow, final: FinalResponse): Promise<Cost> {
  const { usage, toolUses, pricedModel, others } = final;
  const dearest = await dearestKnownPrices(tx);
  const costAt = async (model: string, metered: MeteredUsage): Promise<Cost> => {
    const isOther = model !== '' && model !== attempt.model;
    const ofModel = isOther && (await newestPriceAt(tx, attempt.connector_id, model));
    const cost = costOf(metered, ofModel || (await priceOfAttempt(tx, attempt)), dearest);
    return isOther && !ofModel ? { ...cost, unpriced: [`model:${model}`, ...cost.unpriced] } : cost;
  };
  const tools: MeteredUsage = { tokens: NO_TOKENS, service: STANDARD_SERVICE, toolUses };
  const main = await costAt(usage ? pricedModel : '', usage ?? tools);
  let costNanoUsd = usage ? main.costNanoUsd : main.costNanoUsd + attempt.cost_nano_usd;
  const unpriced = new Set(main.unpriced);
  for (const { model, tokens } of others) {
    const service = usage?.service ?? STANDARD_SERVICE;
    const cost = await costAt(model, { tokens, service, toolUses: {} });
    costNanoUsd += cost.costNanoUsd;
    for (const name of cost.unpriced) unpriced.add(name);
  }
  return { costNanoUsd: capped(costNanoUsd), unpriced: [...unpriced] };
}

/** What the ledger takes. */
function capped(cost: NanoUsd): NanoUsd {
  return cost < MAX_COST_NANO_USD ? cost : MAX_COST_NANO_USD;
}

async function priceOfAttempt(tx: Tx, attempt: AttemptRow): Promise<ModelPrice> {
  const price = await priceOfVersion(tx, attempt);
  if (price) return price;
  const { model, price_source, price_version } = attempt;
  throw new Error(`version ${price_version} of the ${price_source} price of ${model} is not on record`);
}

/** The difference from the charge, as far as an operator's corrections leave the cost of the attempt within its bounds. */
async function possibleCorrection(tx: Tx, attempt: AttemptRow, cost: NanoUsd): Promise<NanoUsd> {
  const before = await correctedCost(tx, attempt.event_id);
  const after = before + cost - attempt.cost_nano_usd;
  if (after < 0n) return -before;
  return capped(after) - before;
}

/** What limits of tokens lack of the final usage, or have too much; 0 if none counts the attempt. */
function uncountedTokens(attempt: AttemptRow, { usage, others }: FinalResponse): bigint {
  const { counts } = detailsOf(attempt);
  if (!counts || !usage) return 0n;
  const used = others.reduce((sum, { tokens }) => sum + totalTokens(tokens), totalTokens(usage.tokens));
  return BigInt(used) - counts.tokens;
}

/** The tokens are in the reason: those of a correction are 0, since the attempt has its own. */
function detailsOfFinal(
  { usage, pricedModel }: FinalResponse,
  attempt: AttemptRow,
  { unpriced }: Cost,
): string | null {
  if (!usage) return null;
  const { service, toolUses } = usage;
  const details = { ...service, toolUses: { ...toolUses }, unpriced: [...unpriced] };
  return detailsColumn(create(TokenUsageSchema), {
    ...details,
    pricedModel: pricedModel === attempt.model ? '' : pricedModel,
    dropped: [],
    skipped: [],
  });
}

const MAX_STATUS = 32;
/** Of a reason, which has at most 1,000 characters. */
const MAX_PARTS = 800;

function reasonOf(
  { status, usage, toolUses: tools }: FinalResponse,
  attempt: AttemptRow,
  { costNanoUsd }: Cost,
): string {
  const shown = status.slice(0, MAX_STATUS).replaceAll(/[^a-z0-9_ -]/gi, '?') || 'ended';
  const was = `it was charged ${decimalUsd(attempt.cost_nano_usd)} USD`;
  const start = `background response ${shown}: `;
  const uses = Object.entries(tools).map(([tool, count]) => `${tool} ${count} times`);
  if (!usage) return `${start}${[...uses, was].join(', ').slice(0, MAX_PARTS)}`;
  const { tokens, service } = usage;
  const input = totalInputTokens(tokens);
  const parts = [
    `${input} input and ${totalTokens(tokens) - input} output tokens`,
    ...Object.values(service).filter((condition) => condition !== ''),
    ...uses,
  ];
  return `${start}${parts.join(', ').slice(0, MAX_PARTS)}, ${decimalUsd(costNanoUsd)} USD; ${was}`;
}
