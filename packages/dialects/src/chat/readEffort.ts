import { EFFORTS, type Effort, type Reasoning } from '../ir/request.ts';
import type { Fields } from '../loss/fields.ts';
import type { ChatBody } from './wire.ts';

/** How much the model is to reason: by OpenAI's setting, or by one that other vendors' chat completions have. */
export function readEffort(body: Fields<ChatBody>): Reasoning | undefined {
  const effort = body.wordSetting('reasoning_effort', EFFORTS);
  const others = [readReasoning(body), readThinking(body), readGoogle(body)];
  const [other, ...more] = others.flatMap((one) => one ?? []);
  for (const { path } of more)
    body.context.losses.add(path, 'dropped', 'another setting says how much to reason');
  if (!effort) return other;
  if (!other) return { path: effort.path, effort, isAdaptive: false, isShown: true };
  return { ...other, effort, isAdaptive: false };
}

/** OpenRouter's (https://openrouter.ai/docs/use-cases/reasoning-tokens). */
interface ReasoningWire {
  readonly effort?: string;
  readonly max_tokens?: number;
  readonly enabled?: boolean;
  readonly exclude?: boolean;
}

function readReasoning(body: Fields<ChatBody>): Reasoning | undefined {
  const wire = body.object<ReasoningWire>('reasoning');
  if (!wire) return undefined;
  const enabled = wire.flagSetting('enabled');
  const budget = wire.numberSetting('max_tokens');
  const asked = wire.wordSetting('effort', EFFORTS);
  const effort = enabled?.value === false ? off(enabled.path) : asked;
  const isExcluded = wire.flag('exclude');
  wire.end();
  return {
    path: wire.path,
    effort,
    budget,
    isAdaptive: !effort && !budget,
    isShown: isExcluded !== true,
    shownPath: isExcluded === undefined ? undefined : wire.at('exclude'),
  };
}

interface ThinkingWire {
  readonly type?: string;
  readonly budget_tokens?: number;
  readonly display?: string | null;
}

function readThinking(body: Fields<ChatBody>): Reasoning | undefined {
  const wire = body.object<ThinkingWire>('thinking');
  if (!wire) return undefined;
  const type = wire.need('type', wire.word('type', ['enabled', 'disabled', 'adaptive', 'auto']));
  const budget = wire.numberSetting('budget_tokens');
  const display = wire.word('display', ['summarized', 'omitted']);
  wire.end();
  if (type === undefined) return undefined;
  const isOff = type === 'disabled';
  return {
    path: wire.path,
    effort: isOff ? off(wire.path) : undefined,
    budget: isOff ? undefined : budget,
    isAdaptive: !isOff && !budget,
    isShown: display !== 'omitted',
    shownPath: display && wire.at('display'),
  };
}

/** Settings of Gemini's compatible API (https://ai.google.dev/gemini-api/docs/openai#extra-body). */
interface GoogleWire {
  readonly thinking_config?: unknown;
  readonly cached_content?: string;
  readonly safety_settings?: unknown;
  readonly thought_tag_marker?: unknown;
}

interface ThinkingConfig {
  readonly thinking_budget?: number;
  readonly thinking_level?: string;
  readonly include_thoughts?: boolean;
}

function readGoogle(body: Fields<ChatBody>): Reasoning | undefined {
  const extra = body.object<{ google?: unknown }>('extra_body');
  const google = extra?.object<GoogleWire>('google');
  extra?.end();
  google?.refuse('cached_content', 'the content is at its vendor');
  google?.drop('safety_settings', "it goes by its vendor's own API only");
  google?.drop('thought_tag_marker', 'reasoning is no part of the text');
  const wire = google?.object<ThinkingConfig>('thinking_config');
  google?.end();
  if (!wire) return undefined;
  const asked = wire.numberSetting('thinking_budget');
  // Less than nothing: the model decides.
  const budget = asked && asked.value < 0 ? undefined : asked;
  const level = wire.text('thinking_level')?.toLowerCase();
  const value = EFFORTS.find((one): one is Effort => one === level);
  if (level !== undefined && !value)
    wire.context.losses.add(wire.at('thinking_level'), 'refused', 'the level is not known');
  const isShown = wire.flag('include_thoughts');
  wire.end();
  const effort = value && { value, path: wire.at('thinking_level') };
  return {
    path: wire.path,
    effort,
    budget,
    isAdaptive: !effort && !budget,
    isShown: isShown ?? false,
    shownPath: isShown === undefined ? undefined : wire.at('include_thoughts'),
  };
}

function off(path: string) {
  return { value: 'none', path } as const;
}
