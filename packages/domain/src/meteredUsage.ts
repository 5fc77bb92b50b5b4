import { NO_TOKENS, type TokenUsage } from './tokenUsage.ts';

/** How a vendor served a request, as far as its price depends on it. Empty texts stand for what the list price covers. */
export interface ServiceConditions {
  /** Such as `priority` or `flex`. */
  readonly serviceTier: string;
  /** Such as `fast`. */
  readonly speed: string;
  /** Where the model ran, if the request chose it: such as `us`. */
  readonly geography: string;
}

export const STANDARD_SERVICE: ServiceConditions = { serviceTier: '', speed: '', geography: '' };

/** Vendors' names of the conditions that the list price covers. */
const STANDARD_NAMES: ReadonlySet<unknown> = new Set([
  '',
  'default',
  'standard',
  'standard_only',
  'auto',
  'on_demand',
  'global',
  'not_available',
]);

/** The conditions of a response. What is not a text, or names the standard, is the standard. */
export function serviceConditions(
  serviceTier: unknown,
  speed?: unknown,
  geography?: unknown,
): ServiceConditions {
  const conditions = {
    serviceTier: conditionName(serviceTier),
    speed: conditionName(speed),
    geography: conditionName(geography),
  };
  return isStandard(conditions) ? STANDARD_SERVICE : conditions;
}

export function isStandard({ serviceTier, speed, geography }: ServiceConditions): boolean {
  return serviceTier === '' && speed === '' && geography === '';
}

/** A longer name is cut: it is priced as unknown anyway. */
const MAX_CONDITION_LENGTH = 32;

function conditionName(value: unknown): string {
  if (typeof value !== 'string') return '';
  const name = value.toLowerCase();
  return STANDARD_NAMES.has(name) ? '' : name.slice(0, MAX_CONDITION_LENGTH);
}

/** How often a vendor ran each of its own tools, by the tool's name: `web_search`, `code_interpreter`. */
export type ToolUses = Readonly<Record<string, number>>;

export const NO_TOOL_USES: ToolUses = {};

/** Everything that a vendor bills for a request. */
export interface MeteredUsage {
  readonly tokens: TokenUsage;
  readonly service: ServiceConditions;
  readonly toolUses: ToolUses;
}

/** Usage of tokens alone, at the list price. */
export function standardUsage(tokens: TokenUsage): MeteredUsage {
  return { tokens, service: STANDARD_SERVICE, toolUses: NO_TOOL_USES };
}

export const NOTHING_METERED: MeteredUsage = standardUsage(NO_TOKENS);
