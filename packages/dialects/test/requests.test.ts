import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS, type Format, type TargetFormat } from '../src/format.ts';
import { lossPattern } from '../src/loss/losses.ts';
import type { Quirks } from '../src/quirks/quirks.ts';
import type { Translation } from '../src/translateRequest.ts';
import type { Target } from '../src/writeContext.ts';
import { type Leaf, leavesOf, nodesOf, otherValue, withLeaf, without } from './leaves.ts';
import { SAMPLES } from './samples.ts';
import { targetOf, translate } from './translating.ts';

const TARGETS: readonly TargetFormat[] = [...FORMATS, 'converse'];
const PAIRS = FORMATS.flatMap((from) => TARGETS.filter((to) => to !== from).map((to) => ({ from, to })));

/** Targets that take what the samples have, so that a pair is not refused as a whole. */
const generous = (to: TargetFormat) => targetOf(to, { inputs: ['image', 'document', 'audio', 'video'] });

/** What no model of the target's format takes is left out: documents at an address, and stop sequences. */
function sampleFor(from: Format, to: TargetFormat): unknown {
  const left: unknown = SAMPLES[from];
  const documents = { messages: ['messages', 0, 'content', 3], gemini: ['contents', 0, 'parts', 2] };
  const stops = {
    messages: ['stop_sequences'],
    chat: ['stop'],
    gemini: ['generationConfig', 'stopSequences'],
  };
  const fetches = to !== 'chat' && to !== 'converse';
  const refused: Partial<Record<Format, readonly (string | number)[]>> = fetches ? stops : documents;
  const steps = to === 'responses' || !fetches ? refused[from] : undefined;
  return steps ? without(left, steps) : left;
}

/** Leaves that say nothing that a model is told: the model's name is the target's own. */
const SAYS_NOTHING = [
  /^model$/,
  // Ids of items, and their status, are for the vendor's own store.
  /^input\.\d+\.(id|status)$/,
  // The value says what its absence says: the vendor does not store, and usage comes anyway.
  /^store$/,
  /^stream_options\.include_usage$/,
  // Its details say the same.
  /^messages\.\d+\.reasoning_content$/,
  // What decodes it, not what it says.
  /^messages\.\d+\.content\.\d+\.source\.media_type$/,
];

/** Members that say the same as their absence. */
const DEFAULTS = [
  /^(tool_choice|parallel_tool_calls|include(\.\d+)?|thinking\.display)$/,
  /(^|\.)type$/,
  /\.(strict|is_error|syntax)$/,
  /^contents\.\d+\.role$/,
  // The name of a hosted tool says its type.
  /^tools\.\d+\.name$/,
  // A result says whose it is twice.
  /\.functionResponse\.(id|name)$/,
];

/** A request that does not reason: models that do take no sampling. */
function withoutReasoning(from: Format, to: TargetFormat, sample: unknown): unknown {
  const settings: Readonly<Record<Format, readonly (string | number)[]>> = {
    messages: ['thinking'],
    responses: ['reasoning'],
    chat: ['reasoning_effort'],
    gemini: ['generationConfig', 'thinkingConfig'],
  };
  const plain = without(sample, settings[from]);
  if (!TAKES[to].seed) return plain;
  if (from === 'chat') return withLeaf(plain, ['seed'], 7);
  return from === 'gemini' ? withLeaf(plain, ['generationConfig', 'seed'], 7) : plain;
}

/** What requests of a format have a place for. */
const TAKES: Readonly<Record<TargetFormat, Partial<Quirks>>> = {
  converse: {},
  messages: { topK: true },
  responses: {},
  chat: { seed: true, penalties: true },
  gemini: { topK: true, seed: true, penalties: true },
};

/** Losses of one kind are listed once, with their number: then any place of the kind may be meant. */
function isCovered({ path }: Leaf, { losses }: Translation): boolean {
  return losses.some((loss) => {
    const isOne = loss.count === 1;
    const lost = isOne ? loss.path : lossPattern(loss.path);
    const place = isOne ? path : lossPattern(path);
    return place === lost || place.startsWith(`${lost}.`) || isSibling(place, lost);
  });
}

/** A loss that is named at a member which the caller's format has under another name, or further below. */
function isSibling(place: string, lost: string): boolean {
  const names: Readonly<Record<string, string>> = {
    title: 'filename',
    is_error: 'error',
    mimeType: 'mimeType',
    detail: 'detail',
  };
  const at = lost.lastIndexOf('.');
  const other = names[lost.slice(at + 1)];
  return other !== undefined && place.startsWith(lost.slice(0, at)) && place.endsWith(other);
}

function summaryOf(translation: Translation): string {
  if (translation.kind === 'refused') return JSON.stringify(translation.losses);
  const { body, losses, answer } = translation;
  return JSON.stringify([body, losses, answer.stream, answer.wantsUsage]);
}

function unnoticed(from: Format, to: TargetFormat, sample: unknown, target = generous(to)): string[] {
  const whole = translate(from, sample, target);
  if (whole.kind === 'refused') return [];
  const summary = summaryOf(whole);
  return leavesOf(sample)
    .filter((leaf) => !SAYS_NOTHING.some((exempt) => exempt.test(leaf.path)))
    .filter((leaf) => {
      const other = translate(from, withLeaf(sample, leaf.steps, otherValue(leaf.value)), target);
      return summaryOf(other) === summary && !isCovered(leaf, whole);
    })
    .map(({ path }) => path);
}

function isEmptyList(sample: unknown, steps: readonly (string | number)[]): boolean {
  const value = steps.reduce<unknown>((at, step) => (at as Record<string | number, unknown>)[step], sample);
  return Array.isArray(value) && value.length === 0;
}

/** Members that make no difference, and whose loss is not named. */
function needless(from: Format, sample: unknown, target: Target): string[] {
  const whole = translate(from, sample, target);
  const summary = summaryOf(whole);
  return nodesOf(sample)
    .map((steps) => ({ path: steps.join('.'), steps, value: undefined }))
    .filter(
      ({ path, steps }) =>
        !isEmptyList(sample, steps) && ![...SAYS_NOTHING, ...DEFAULTS].some((exempt) => exempt.test(path)),
    )
    .filter(({ steps }) => summaryOf(translate(from, without(sample, steps), target)) === summary)
    .filter((leaf) => !isCovered(leaf, whole))
    .map(({ path }) => path);
}

describe('a request in another dialect', () => {
  it.each(PAIRS)('changes with each member that is left out, or its loss is named: $from to $to', (pair) => {
    const { from, to } = pair;
    const sample = sampleFor(from, to);
    expect(needless(from, sample, generous(to))).toEqual([]);
    const all = targetOf(to, { inputs: ['image', 'document', 'audio', 'video'], ...TAKES[to] });
    const plain = withoutReasoning(from, to, sample);
    expect(translate(from, plain, all).kind).toBe('translated');
    expect(needless(from, plain, all)).toEqual([]);
    expect(unnoticed(from, to, plain, all)).toEqual([]);
  });

  it.each(PAIRS)('changes with each leaf, or the loss of the leaf is named: $from to $to', ({ from, to }) => {
    const sample = sampleFor(from, to);
    expect(translate(from, sample, generous(to)).kind).toBe('translated');
    expect(unnoticed(from, to, sample)).toEqual([]);
  });

  it.each(PAIRS)('does so with whatever is left out: $from to $to', ({ from, to }) => {
    const sample = sampleFor(from, to);
    const nodes = nodesOf(sample);
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(nodes.length - 1), { maxLength: 3 }), (chosen) => {
        const pruned = [...chosen]
          .sort((a, b) => b - a)
          .reduce((body, index) => {
            const steps = nodes[index] ?? [];
            return has(body, steps) ? without(body, steps) : body;
          }, sample);
        expect(unnoticed(from, to, pruned)).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it.each(PAIRS)(
    'is translated or refused, never thrown at, with any value in any place: $from to $to',
    (pair) => {
      const { from, to } = pair;
      const sample = sampleFor(from, to);
      const nodes = nodesOf(sample);
      const target = generous(to);
      const values = fc.oneof(
        fc.jsonValue({ maxDepth: 3 }),
        fc.constantFrom('__proto__', '', -1, [[]], [null], {}),
      );
      fc.assert(
        fc.property(fc.nat(nodes.length - 1), values, (index, value) => {
          const steps = nodes[index] ?? [];
          const { kind } = translate(from, withLeaf(sample, steps, value), target);
          expect(['translated', 'refused']).toContain(kind);
        }),
        { numRuns: 60 },
      );
    },
  );

  it.each(PAIRS)(
    'names every loss again as a refusal if the policy is strict: $from to $to',
    ({ from, to }) => {
      const lenient = translate(from, sampleFor(from, to), generous(to));
      const strict = translate(from, sampleFor(from, to), generous(to), 'strict');
      expect(lenient.losses.length).toBeGreaterThan(0);
      expect(strict.kind).toBe('refused');
      if (lenient.kind === 'translated') expect(strict.losses).toEqual(lenient.losses);
    },
  );
});

function has(root: unknown, steps: readonly (string | number)[]): boolean {
  let at = root;
  for (const step of steps) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return false;
    at = (at as Record<string | number, unknown>)[step];
  }
  return true;
}
