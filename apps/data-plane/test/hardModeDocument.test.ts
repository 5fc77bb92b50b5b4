import { readFileSync } from 'node:fs';
import { expectTable } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { hardTerms } from '../src/formats/hardMode.ts';
import { GEMINI_OPERATIONS, OPERATIONS, type Operation } from '../src/formats/operation.ts';
import { hardModeDocument } from './hardModeDocument.ts';

const PAGE = '../../../docs/hard-mode.md';

it('is what its generator writes: after a change of a table, run this test with --update', async () => {
  await expect(hardModeDocument()).toMatchFileSnapshot(PAGE);
});

/** A section of the page as a reader takes it: the path of its title, the cost by field, and what is free with any value. */
interface Section {
  readonly path: string;
  readonly rows: ReadonlyMap<string, readonly [cost: string, text: string]>;
  /** Fields that cost something as an object, and are free as text: they have two rows. */
  readonly freeAsText: ReadonlySet<string>;
  readonly free: readonly string[];
}

const sections: readonly Section[] = readFileSync(new URL(PAGE, import.meta.url), 'utf8')
  .split('\n## ')
  .slice(1)
  .map((text) => {
    const path = /^`POST (\S+)`/.exec(text)?.[1] ?? '';
    const rows = [...text.matchAll(/^\| (`.+?) +\| (\w+) +\| (.*?) *\|$/gm)].map(
      ([, field = '', cost = '', what = '']) => [field.replaceAll('`', ''), [cost, what]] as const,
    );
    const free = /^Free, with any value: (.*)\.$/m.exec(text)?.[1] ?? '';
    const freeAsText = new Set(
      rows.filter(([, [cost, what]]) => cost === 'free' && what === 'text').map(([field]) => field),
    );
    return {
      path,
      rows: new Map(rows),
      freeAsText,
      free: [...free.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
    };
  });

/** What the page must say whatever the tables hold: from the vendors' own documents, and our rule for what we can't bound. */
const FACTS: readonly [path: string, field: string, cost: string][] = [
  ['/v1/chat/completions', 'max_tokens', 'bounded'],
  ['/v1/chat/completions', 'max_completion_tokens', 'bounded'],
  ['/v1/chat/completions', 'n', 'bounded'],
  ['/v1/chat/completions', 'model', 'model'],
  ['/v1/chat/completions', 'models', 'unbounded'],
  ['/v1/chat/completions', 'audio', 'unbounded'],
  ['/v1/chat/completions', 'service_tier', 'priced'],
  ['/v1/chat/completions', 'messages[].content[] image_url', 'unbounded'],
  ['/v1/chat/completions', 'messages[].content[] file', 'unbounded'],
  ['/v1/responses', 'max_output_tokens', 'bounded'],
  ['/v1/responses', 'previous_response_id', 'stored'],
  ['/v1/responses', 'conversation', 'stored'],
  ['/v1/messages', 'max_tokens', 'bounded'],
  ['/v1/messages', 'inference_geo', 'priced'],
  ['/v1/completions', 'best_of', 'bounded'],
  ['/v1/completions', 'n', 'bounded'],
  ['/v1/embeddings', 'model', 'model'],
  ['/v1beta/models/{model}:generateContent', 'cachedContent', 'stored'],
  ['/v1beta/models/{model}:generateContent', 'generationConfig.maxOutputTokens', 'bounded'],
];

/** What a client may send for a field of any type. */
const VALUES = ['"text"', '7', '[{"a":1}]', '{"a":"b"}'];

/** The operations with a section of their own. */
const described = [...OPERATIONS, ...GEMINI_OPERATIONS].flatMap((operation) => {
  const path = `${operation.dialect === 'gemini' ? '/v1beta' : '/v1'}${operation.path}`;
  const section = sections.find((one) => one.path === path && one.rows.size > 0);
  return section ? [{ operation, section }] : [];
});

function isRefused(operation: Operation, field: string, value: string): boolean {
  try {
    hardTerms(operation, Buffer.from(`{${JSON.stringify(field)}:${value}}`), new Set());
    return false;
  } catch {
    return true;
  }
}

const isTop = (field: string) => /^\w+$/.test(field);

describe('the page about hard budgets', () => {
  it('says of each field what its cost is', async () => {
    await expectTable(
      FACTS,
      ([path, field]) => `${path} ${field}`,
      ([path, field, cost]) => {
        expect(sections.find((one) => one.path === path)?.rows.get(field)?.[0]).toBe(cost);
      },
    );
  });

  it('agrees with what the proxy does: free with any value is accepted, unbounded and stored are refused', async () => {
    const rows = described.flatMap(({ operation, section }) => [
      ...section.free.map((field) => ({ operation, field, cost: 'free' })),
      ...[...section.rows]
        .filter(([field, [cost]]) => isTop(field) && (cost === 'unbounded' || cost === 'stored'))
        .map(([field, [cost]]) => ({
          operation,
          field,
          cost: section.freeAsText.has(field) ? `${cost} unless text` : cost,
        })),
      { operation, field: 'no_such_field', cost: 'unknown' },
    ]);
    expect(described.length).toBeGreaterThan(7);
    expect(new Set(rows.map(({ cost }) => cost))).toEqual(
      new Set(['free', 'unbounded', 'stored', 'stored unless text', 'unknown']),
    );
    await expectTable(
      rows,
      ({ operation, field, cost }) => `${operation.path} ${field} (${cost})`,
      ({ operation, field, cost }) => {
        const refused = VALUES.filter((value) => isRefused(operation, field, value));
        const isScalarFree = cost.endsWith('unless text');
        expect(refused).toEqual(cost === 'free' ? [] : isScalarFree ? VALUES.slice(2) : VALUES);
      },
    );
  });

  it('agrees with what the proxy does: a count is taken in digits alone', async () => {
    const rows = described.flatMap(({ operation, section }) =>
      [...section.rows]
        .filter(([field, [, text]]) => isTop(field) && text.startsWith('a whole number in digits'))
        .map(([field]) => ({ operation, field })),
    );
    await expectTable(
      rows,
      ({ operation, field }) => `${operation.path} ${field}`,
      ({ operation, field }) => {
        const given = ['1', '1.5', '1e2', '-1', '"7"', '[7]'];
        expect(given.filter((value) => !isRefused(operation, field, value))).toEqual(['1']);
      },
    );
  });
});
