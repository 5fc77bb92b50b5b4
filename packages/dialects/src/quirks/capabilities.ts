import type { TargetFormat } from '../format.ts';
import { EFFORTS, type Effort } from '../ir/request.ts';
import type { Quirks } from './quirks.ts';

const BUDGET = /^reasoning_budget_(\d{1,9})_(\d{1,9})$/;
const STOPS = /^stop_sequences_(\d{1,4})$/;
const EFFORT = /^effort_([a-z]+)$/;

/** Formats whose requests can have a number of reasoning tokens. */
const TAKES_BUDGET: ReadonlySet<TargetFormat> = new Set(['messages', 'gemini']);

/** What capabilities say of the settings of a request. Undefined, or empty: they do not say. */
interface StatedSettings {
  readonly efforts: readonly Effort[];
  readonly budget: Quirks['budget'];
  readonly adaptive: boolean;
  readonly canTurnOff: boolean | undefined;
  readonly sampling: boolean | undefined;
  readonly structuredOutput: boolean | undefined;
  readonly maxStops: number | undefined;
}

/** Quirks with what the capabilities of a model say in place of what its vendor's models usually take. */
export function withCapabilities(
  usual: Quirks,
  capabilities: readonly string[],
  format: TargetFormat,
): Quirks {
  const stated = readStated(capabilities);
  return {
    ...usual,
    ...(capabilities.includes('reasoning') && reasoningOf(stated, usual, format)),
    sampling: stated.sampling ?? usual.sampling,
    structuredOutput: stated.structuredOutput ?? usual.structuredOutput,
    cacheMarks: usual.cacheMarks || (format === 'converse' && capabilities.includes('cache_marks')),
    // Responses have no stop sequences, whatever the model takes elsewhere.
    maxStops: Math.min(stated.maxStops ?? usual.maxStops, format === 'responses' ? 0 : Infinity),
  };
}

function readStated(capabilities: readonly string[]): StatedSettings {
  const has = (name: string) => capabilities.includes(name);
  const either = (name: string) => (has(name) ? true : has(`no_${name}`) ? false : undefined);
  const stops = matched(capabilities, STOPS);
  const [, min, max] = matched(capabilities, BUDGET) ?? [];
  const budget = { min: Number(min), max: Number(max) };
  const named = new Set(capabilities.map((name) => EFFORT.exec(name)?.[1]));
  return {
    efforts: EFFORTS.filter((effort) => named.has(effort)),
    budget: min !== undefined && budget.min <= budget.max ? budget : undefined,
    adaptive: has('adaptive_reasoning'),
    canTurnOff: either('reasoning_off'),
    sampling: either('sampling'),
    structuredOutput: either('structured_output'),
    maxStops: stops && Number(stops[1]),
  };
}

function matched(capabilities: readonly string[], pattern: RegExp): RegExpExecArray | undefined {
  for (const name of capabilities) {
    const match = pattern.exec(name);
    if (match) return match;
  }
  return undefined;
}

type ReasoningQuirks = Pick<Quirks, 'efforts' | 'budget' | 'adaptive' | 'canTurnOffReasoning'>;

/** How the model can be told to reason, in a format; as usual if nothing is said of it. */
function reasoningOf(
  { efforts, budget, adaptive, canTurnOff }: StatedSettings,
  usual: Quirks,
  format: TargetFormat,
): Partial<ReasoningQuirks> {
  const isSilent = efforts.length === 0 && !budget && !adaptive;
  if (!TAKES_BUDGET.has(format)) {
    // Reasoning is turned off by an effort there. A vendor with a format of its own takes efforts, and translates them itself.
    return efforts.length > 0 ? { efforts } : {};
  }
  if (isSilent) return { canTurnOffReasoning: canTurnOff ?? usual.canTurnOffReasoning };
  // In messages, an effort goes with reasoning that the model decides on, unless it takes nothing else.
  const isAdaptive = adaptive || !budget;
  const takesEfforts = format !== 'messages' || isAdaptive;
  return {
    efforts: takesEfforts ? efforts : [],
    budget,
    adaptive: isAdaptive || usual.adaptive,
    // In messages, a model reasons if it is asked to.
    canTurnOffReasoning: canTurnOff ?? (format === 'messages' || budget?.min === 0),
  };
}
