import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { FORMATS, type Format, type TargetFormat } from '../src/format.ts';
import { StreamTranslator, translateDocument, translateError } from '../src/translateAnswer.ts';
import { answerOptions } from './answers.ts';
import { targetOf, translate } from './translating.ts';

/**
 * Each file of goldens/ named by one format is what comes in; `a-to-b` beside it is what goes out. After an intended change, run
 * this test with --update and read the difference. A new file is written by that, too: without it, a missing one fails.
 */
const GOLDENS = fileURLToPath(new URL('../goldens', import.meta.url));
const TARGETS: readonly TargetFormat[] = [...FORMATS, 'converse'];
const found = readdirSync(GOLDENS, { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.includes('.'),
);

interface Pair {
  readonly input: string;
  readonly from: TargetFormat;
  readonly to: TargetFormat;
  /** What goes out. */
  readonly golden: string;
}

/** The pairs of a kind: each feature × each format that it comes in × each other that it goes out in. */
function pairsOf(kind: string, from: readonly string[], to: readonly TargetFormat[], suffix: string): Pair[] {
  const inputs = found.filter((path) => path.startsWith(`${kind}/`) && !path.includes('-to-'));
  const pairs = inputs.flatMap((path) => {
    const [, feature, file = ''] = path.split('/');
    const format = file.slice(0, file.indexOf('.')) as TargetFormat;
    const input = readFileSync(`${GOLDENS}/${path}`, 'utf8');
    return to
      .filter((other) => other !== format)
      .map((other) => {
        const golden = `${kind}/${feature}/${format}-to-${other}.${suffix}`;
        return { input, from: format, to: other, golden };
      });
  });
  const covered = new Set(pairs.map((pair) => `${pair.from} ${pair.to}`));
  for (const one of from)
    for (const other of to) if (one !== other) expect(covered).toContain(`${one} ${other}`);
  return pairs;
}

const requests = pairsOf('requests', FORMATS, TARGETS, 'json');
const answers = pairsOf('answers', TARGETS, FORMATS, 'json');
const streams = pairsOf('streams', TARGETS, FORMATS, 'sse');
const errors = pairsOf('errors', TARGETS, FORMATS, 'json');

const pretty = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

/** One test for all pairs, which names each that differs. */
async function expectGoldens(pairs: readonly Pair[], written: (pair: Pair) => string): Promise<void> {
  const failed: string[] = [];
  for (const pair of pairs) {
    const isMissing = !existsSync(`${GOLDENS}/${pair.golden}`);
    try {
      await expect(written(pair)).toMatchFileSnapshot(`${GOLDENS}/${pair.golden}`);
      if (isMissing) failed.push(`${pair.golden}: was missing; read what was written`);
    } catch (error) {
      failed.push(`${pair.golden}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  expect(failed).toEqual([]);
  expect(pairs.length).toBeGreaterThan(30);
}

it('translates each request as its golden says, and names what it changes', async () => {
  await expectGoldens(requests, ({ input, from, to }) => {
    const translation = translate(from as Format, input, targetOf(to));
    const { kind, losses } = translation;
    const body = kind === 'translated' ? JSON.parse(translation.body) : null;
    return pretty({ kind, body, losses });
  });
});

it('translates each answer as its golden says', async () => {
  await expectGoldens(answers, ({ input, from, to }) => {
    const { status, body } = translateDocument(input, optionsOf(from, to));
    return pretty({ status, body: JSON.parse(body) });
  });
});

it('translates each stream as its golden says, event by event', async () => {
  await expectGoldens(streams, ({ input, from, to }) => {
    const translator = new StreamTranslator(optionsOf(from, to));
    const events = input.trimEnd().split('\n');
    return events.map((event) => translator.pushData(event)).join('') + translator.end();
  });
});

it('translates each error as its golden says', async () => {
  await expectGoldens(errors, ({ input, from, to }) => {
    const { status, body } = JSON.parse(input);
    return pretty(JSON.parse(translateError(JSON.stringify(body), status, from, to as Format)));
  });
});

it('has no golden that no test reads', () => {
  const goldens = [...requests, ...answers, ...streams, ...errors].map(({ golden }) => golden);
  const outputs = found.filter((path) => path.includes('-to-'));
  expect(outputs.sort()).toEqual(goldens.sort());
});

function optionsOf(from: TargetFormat, to: TargetFormat) {
  return answerOptions(from as Format, to as Format);
}
