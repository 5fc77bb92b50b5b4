import { afterAll, beforeAll, expect, test } from 'vitest';
import { type MockVendor, startMockVendor } from '../mockVendor.ts';

const SCHEMA = {
  type: 'object',
  properties: { model_choice: { type: 'string', enum: ['flash', 'pro'] }, reasoning: { type: 'string' } },
  required: ['reasoning', 'model_choice'],
  additionalProperties: false,
};
const GOOGLE_SCHEMA = {
  type: 'OBJECT',
  properties: { model_choice: { type: 'STRING', enum: ['flash', 'pro'] }, reasoning: { type: 'STRING' } },
  required: ['reasoning', 'model_choice'],
};
const FITTING = { reasoning: 'Hi', model_choice: 'flash' };
const messages = [{ role: 'user', content: 'Hi' }];
const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }];
const jsonSchema = { type: 'json_schema', name: 'route', schema: SCHEMA };
const gemini = (generationConfig: object) => ({ contents, generationConfig });
const GENERATE = '/v1beta/models/m:generateContent';

let vendor: MockVendor;
beforeAll(async () => {
  vendor = await startMockVendor({ traits: { strict: true } });
});
afterAll(() => vendor.close());

async function ask(path: string, body: object): Promise<string> {
  const response = await fetch(new URL(path, vendor.url), { method: 'POST', body: JSON.stringify(body) });
  expect(response.status).toBe(200);
  return await response.text();
}

/** The text of an answer, whatever its dialect. */
function textIn(answer: string): string {
  const { choices, output, content, candidates } = JSON.parse(answer);
  const parts = output?.[0].content ?? content ?? candidates?.[0].content.parts;
  return choices?.[0].message.content ?? parts[0].text;
}

test.each([
  [
    '/v1/chat/completions',
    { model: 'm', messages, response_format: { type: 'json_schema', json_schema: jsonSchema } },
  ],
  ['/v1/responses', { model: 'm', input: 'Hi', text: { format: jsonSchema } }],
  ['/v1/messages', { model: 'm', messages, max_tokens: 99, output_config: { format: jsonSchema } }],
  ['/v1/messages', { model: 'm', messages, max_tokens: 99, output_format: jsonSchema }],
  [GENERATE, gemini({ responseMimeType: 'application/json', responseSchema: GOOGLE_SCHEMA })],
  [GENERATE, gemini({ responseMimeType: 'application/json', responseJsonSchema: SCHEMA })],
  [
    GENERATE,
    { contents, generation_config: { response_mime_type: 'application/json', response_schema: SCHEMA } },
  ],
])('an answer in JSON fits the schema that was asked for: %s %j', async (path, body) => {
  expect(JSON.parse(textIn(await ask(path, body)))).toEqual(FITTING);
});

test.each([
  [
    '/v1/chat/completions',
    { model: 'm', messages, response_format: { type: 'json_object' } },
    { text: 'Hi' },
  ],
  ['/v1/responses', { model: 'm', input: 'Hi', text: { format: { type: 'json_object' } } }, { text: 'Hi' }],
  [GENERATE, gemini({ responseMimeType: 'application/json' }), { text: 'Hi' }],
])('JSON without a schema is an object: %s %j', async (path, body, expected) => {
  expect(JSON.parse(textIn(await ask(path, body)))).toEqual(expected);
});

test.each([
  ['/v1/chat/completions', { model: 'm', messages, response_format: { type: 'text' } }, 'Hi'],
  ['/v1/responses', { model: 'm', input: 'Hi', text: { format: { type: 'text' }, verbosity: 'low' } }, 'Hi'],
  [GENERATE, gemini({ responseMimeType: 'text/plain' }), 'Hi'],
  [
    GENERATE,
    gemini({ responseMimeType: 'text/x.enum', responseSchema: { type: 'STRING', enum: ['a', 'b'] } }),
    'a',
  ],
])('other answers stay text: %s %j', async (path, body, expected) => {
  expect(textIn(await ask(path, body))).toBe(expected);
});

test('a response repeats the form that was asked for', async () => {
  const text = { format: jsonSchema, verbosity: 'low' };
  expect(JSON.parse(await ask('/v1/responses', { model: 'm', input: 'Hi', text })).text).toEqual(text);
});

test('a stream of JSON comes in pieces that add up to it', async () => {
  const config = { responseMimeType: 'application/json', responseSchema: GOOGLE_SCHEMA };
  const streamed = await ask('/v1beta/models/m:streamGenerateContent', gemini(config));
  const pieces = (JSON.parse(streamed) as { candidates: { content: { parts: { text: string }[] } }[] }[])
    .map(({ candidates }) => candidates[0]?.content.parts[0]?.text ?? '')
    .filter((text) => text !== '');
  expect(pieces.length).toBeGreaterThan(2);
  expect(JSON.parse(pieces.join(''))).toEqual(FITTING);
});

test('what a tool answered is told in that JSON too', async () => {
  const parts = [{ functionResponse: { name: 'weigh', response: { output: '40 tonnes' } } }];
  const asked = {
    contents: [...contents, { role: 'user', parts }],
    generationConfig: { responseJsonSchema: SCHEMA },
  };
  const { reasoning, ...others } = JSON.parse(textIn(await ask(GENERATE, asked)));
  expect([reasoning, others]).toEqual([expect.stringContaining('40 tonnes'), { model_choice: 'flash' }]);
});
