import { usageFromChat, usageFromMessages, usageFromResponses } from '@weighbridge/domain';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatFormat } from './chatFormat.ts';
import { messagesFormat } from './messagesFormat.ts';
import { noFacts, readBody } from './responseFormat.ts';
import { isResponseId } from './responseId.ts';
import { responsesFormat } from './responsesFormat.ts';

const count = fc.oneof(fc.nat(), fc.constantFrom(null, -1, 1.5, '3', undefined));
const usage = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      prompt_tokens_details: fc.record({ cached_tokens: count, cache_write_tokens: count }),
      input_tokens: count,
      input_tokens_details: fc.record({ cached_tokens: count }),
      output_tokens: count,
      cache_read_input_tokens: count,
      cache_creation_input_tokens: count,
      cache_creation: fc.record({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }),
    },
    { requiredKeys: [] },
  ),
);
const id = fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue());
/** A response as text: fields in any order, some twice, with any white space. */
const answer = fc
  .tuple(
    fc.array(
      fc.oneof(
        fc.tuple(fc.constant('usage'), usage),
        fc.tuple(fc.constant('id'), id),
        fc.tuple(fc.string(), fc.jsonValue()),
      ),
      { maxLength: 8 },
    ),
    fc.constantFrom('', ' ', '\n  '),
  )
  .map(([members, gap]) => {
    const written = members
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${JSON.stringify(name)}:${gap}${JSON.stringify(value)}`);
    return `{${gap}${written.join(`,${gap}`)}}`;
  });

const DIALECTS = [
  ['chat completions', chatFormat, usageFromChat],
  ['responses', responsesFormat, usageFromResponses],
  ['messages', messagesFormat, usageFromMessages],
] as const;

describe.each(DIALECTS)('a whole response of %s', (_name, format, oracle) => {
  it('is read as JSON.parse reads it, whatever it contains', () => {
    fc.assert(
      fc.property(answer, (text) => {
        const parsed: Record<string, unknown> = JSON.parse(text);
        const facts = noFacts();
        readBody(format, Buffer.from(text), facts);
        expect(facts).toMatchObject({
          usage: oracle(parsed.usage),
          responseId: typeof parsed.id === 'string' && isResponseId(parsed.id) ? parsed.id : '',
        });
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['a control character', 'a\u0000b'],
    ['half of a surrogate pair', 'a\ud800b'],
    ['more than 512 characters', 'a'.repeat(513)],
  ])('has no id where the vendor sent an id with %s', (_what, id) => {
    const idOf = (sent: string) => {
      const facts = noFacts();
      readBody(format, Buffer.from(JSON.stringify({ id: sent })), facts);
      return facts.responseId;
    };
    expect(idOf(id)).toBe('');
    expect(idOf('€'.repeat(512))).toBe('€'.repeat(512));
  });

  it('reports nothing where it is damaged, and does not throw', () => {
    fc.assert(
      fc.property(answer, fc.nat(), fc.uint8Array({ maxLength: 3 }), (text, where, noise) => {
        const bytes = Buffer.from(text);
        const at = where % (bytes.length + 1);
        const facts = noFacts();
        readBody(format, Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)]), facts);
        expect(typeof facts.responseId).toBe('string');
      }),
      { numRuns: 1_000 },
    );
  });
});
