import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { lossPattern } from '../src/loss/losses.ts';
import type { Translation } from '../src/translateRequest.ts';
import { type Leaf, leavesOf, nodesOf, otherValue, withLeaf, without } from './leaves.ts';
import { SAMPLES } from './samples.ts';
import { targetOf, translate } from './translating.ts';

const PAIRS = FORMATS.flatMap((from) => FORMATS.filter((to) => to !== from).map((to) => ({ from, to })));

/** Targets that take what the samples have, so that a pair is not refused as a whole. */
const generous = (to: Format) => targetOf(to, { inputs: ['image', 'document', 'audio', 'video'] });

/** What no model of the target's format takes is left out: documents at an address, and stop sequences. */
function sampleFor(from: Format, to: Format): unknown {
  const left: unknown = SAMPLES[from];
  const documents = { messages: ['messages', 0, 'content', 3], gemini: ['contents', 0, 'parts', 2] };
  const stops = {
    messages: ['stop_sequences'],
    chat: ['stop'],
    gemini: ['generationConfig', 'stopSequences'],
  };
  const refused: Partial<Record<Format, readonly (string | number)[]>> = to === 'chat' ? documents : stops;
  const steps = to === 'chat' || to === 'responses' ? refused[from] : undefined;
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
  // What decodes it, not what it says.
  /^messages\.\d+\.content\.\d+\.source\.media_type$/,
];

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

function unnoticed(from: Format, to: Format, sample: unknown): string[] {
  const target = generous(to);
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

describe('a request in another dialect', () => {
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
