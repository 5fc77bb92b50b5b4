import type { Counts } from '@weighbridge/budget';
import { MEDIA_CLASSES, type MediaClass, TOKEN_FIELDS } from '@weighbridge/domain';
import type { TokenUsageFields, UsageEventFields } from '@weighbridge/usage';
import { atMost } from './validation.ts';

/** Parts of `input_tokens`, `cache_read_tokens` and `output_tokens`. */
type MediaTokens = { readonly [Media in MediaClass as `${Media}Tokens`]: number };

/** What the cost of a row depends on besides its tokens, and what its vendor did not get. Empty texts stand for what the list price covers. */
export interface BillingDetails extends MediaTokens {
  readonly serviceTier: string;
  readonly speed: string;
  readonly geography: string;
  /** By the tool's name. */
  readonly toolUses: Readonly<Record<string, number>>;
  /** What the price list had no price for. */
  readonly unpriced: readonly string[];
  /** The model whose price applied, if it is not the attempt's. */
  readonly pricedModel: string;
  /** What of the request the vendor did not get as it was sent. */
  readonly dropped: readonly string[];
  /** The models that its request passed over, each with the further limit that had no headroom for it. */
  readonly skipped: readonly string[];
  /** What the row counts in limits of requests and of tokens; undefined if it is in none. */
  readonly counts: Counts | undefined;
}

/** The column: only what is not as for text at the list price. */
type DetailsColumn = Partial<
  Record<(typeof TOKEN_FIELDS)[MediaClass], number> & {
    readonly service_tier: string;
    readonly speed: string;
    readonly geography: string;
    readonly tool_uses: Readonly<Record<string, number>>;
    readonly unpriced: readonly string[];
    readonly priced_model: string;
    readonly dropped: readonly string[];
    readonly skipped: readonly string[];
    readonly counts: { readonly requests: number; readonly tokens: number };
  }
>;

/** More than proxies write: they cut to 8 or 9 entries, and to 48 characters (512 for a model, 96 for a dropped field). */
const MAX_ENTRIES = 64;
const MAX_TEXT = 1_024;

/** The details of an event as JSON; null if it has none, as most. Throws if they are larger than any that a proxy writes. */
export function detailsColumn(
  usage: TokenUsageFields,
  details: UsageEventFields['details'],
  counts?: Counts,
): string | null {
  const tokens: Record<string, number> = {};
  for (const media of MEDIA_CLASSES) if (usage[media] > 0) tokens[TOKEN_FIELDS[media]] = usage[media];
  if (!details && !counts && Object.keys(tokens).length === 0) return null;
  const column = {
    ...tokens,
    ...(details && texts(details)),
    ...(counts && { counts: countsColumn(counts) }),
  };
  const set = Object.entries(column).filter(([, value]) => value !== 0 && value !== '' && !isEmpty(value));
  return set.length === 0 ? null : JSON.stringify(Object.fromEntries(set));
}

function countsColumn({ requests, tokens }: Counts) {
  return { requests: Number(requests), tokens: Number(tokens) };
}

function texts(details: NonNullable<UsageEventFields['details']>): DetailsColumn {
  const toolUses = Object.entries(details.toolUses);
  atMost(MAX_ENTRIES, 'the number of tools', toolUses.length);
  atMost(MAX_ENTRIES, 'the number of unpriced items', details.unpriced.length);
  atMost(MAX_ENTRIES, 'the number of dropped fields', details.dropped.length);
  atMost(MAX_ENTRIES, 'the number of skipped models', details.skipped.length);
  return {
    service_tier: storable('service_tier', details.serviceTier),
    speed: storable('speed', details.speed),
    geography: storable('geography', details.geography),
    tool_uses: Object.fromEntries(toolUses.map(([tool, uses]) => [storable('a tool', tool), uses])),
    unpriced: details.unpriced.map((item) => storable('an unpriced item', item)),
    priced_model: storable('priced_model', details.pricedModel),
    dropped: details.dropped.map((field) => storable('a dropped field', field)),
    skipped: details.skipped.map((model) => storable('a skipped model', model)),
  };
}

/** A vendor or a caller chose the text: what Postgres can't store must not keep the event out of the ledger. */
function storable(name: string, text: string): string {
  atMost(MAX_TEXT, `the length of ${name}`, text.length);
  return text.replaceAll('\0', '?');
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

/** Details with what a row counts in limits of requests and of tokens. */
export function withCounts(details: string | null, counts: Counts): string {
  return JSON.stringify({ ...JSON.parse(details ?? '{}'), counts: countsColumn(counts) });
}

/** The details of a row. */
export function detailsOf({ details }: { readonly details: unknown }): BillingDetails {
  const column = (details ?? {}) as DetailsColumn;
  return {
    ...mediaTokens(column),
    serviceTier: column.service_tier ?? '',
    speed: column.speed ?? '',
    geography: column.geography ?? '',
    toolUses: column.tool_uses ?? {},
    unpriced: column.unpriced ?? [],
    pricedModel: column.priced_model ?? '',
    dropped: column.dropped ?? [],
    skipped: column.skipped ?? [],
    counts: column.counts && {
      requests: BigInt(column.counts.requests),
      tokens: BigInt(column.counts.tokens),
    },
  };
}

function mediaTokens(column: DetailsColumn): MediaTokens {
  return Object.fromEntries(
    MEDIA_CLASSES.map((media) => [`${media}Tokens`, column[TOKEN_FIELDS[media]] ?? 0]),
  ) as MediaTokens;
}
