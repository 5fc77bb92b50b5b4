import { describe, expect, it } from 'vitest';
import { hasMember } from './decodedMembers.ts';
import { readGeminiRequest } from './geminiRequest.ts';
import { readGenerationRequest } from './generationRequest.ts';
import {
  CHAT_COMPLETIONS,
  CONVERSE,
  GENERATE_CONTENT,
  MESSAGES,
  OPERATIONS,
  type Operation,
  RESPONSES,
} from './operation.ts';
import { RequestBody } from './requestBody.ts';
import { unknownCosts } from './unknownCosts.ts';

const NONE = { input: false, tools: false, output: false };

function costs(operation: Operation, fields: object) {
  // Each name and text is written with escapes too: no vendor reads them differently.
  const plain = JSON.stringify({ ...(operation !== GENERATE_CONTENT && { model: 'm' }), ...fields });
  const escaped = plain.replaceAll(/"(?!model")([a-z]\w+)"/gi, (_, text: string) => {
    return `"\\u00${text.charCodeAt(0).toString(16)}${text.slice(1)}"`;
  });
  const [one, other] = [plain, escaped].map((text) => {
    const body = new RequestBody([Buffer.from(text)]);
    if (operation !== GENERATE_CONTENT) return unknownCosts(readGenerationRequest(operation, body));
    const target = { operation, model: 'm', stream: true, isArray: false };
    return unknownCosts(readGeminiRequest(target, body));
  });
  expect(other).toEqual(one);
  return one;
}

const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const item = (...content: object[]) => ({ input: [{ role: 'user', content }] });
const URL = 'https://example.com/a';

describe('what the bytes of a request do not tell of its cost', () => {
  it('is known of a request with more members than a hard budget takes, which has to be charged', () => {
    const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`x${at}`, at]));
    expect(costs(CHAT_COMPLETIONS, { ...many, ...user() })).toEqual({ ...NONE, output: true });
  });

  it.each([
    ['text', CHAT_COMPLETIONS, user({ type: 'text', text: 'image_url web_search' }), {}],
    [
      'a tool of the client',
      RESPONSES,
      { input: 'x', tools: [{ type: 'function', name: 'web_search' }] },
      {},
    ],
    [
      'an image by URL',
      CHAT_COMPLETIONS,
      user({ type: 'image_url', image_url: { url: URL } }),
      { input: true },
    ],
    [
      'a video by URL',
      CHAT_COMPLETIONS,
      user({ type: 'video_url', video_url: { url: URL } }),
      { input: true },
    ],
    ['audio by URL', CHAT_COMPLETIONS, user({ type: 'audio_url', audio_url: { url: URL } }), { input: true }],
    [
      'a document by URL',
      CHAT_COMPLETIONS,
      user({ type: 'document_url', document_url: URL }),
      { input: true },
    ],
    ['a file by id', CHAT_COMPLETIONS, user({ type: 'file', file: { file_id: 'file_1' } }), { input: true }],
    ['a part that no one knows', CHAT_COMPLETIONS, user({ type: 'hologram', url: URL }), { input: true }],
    ['spoken output', CHAT_COMPLETIONS, { ...user(), modalities: ['text', 'audio'] }, { output: true }],
    ['a prediction', CHAT_COMPLETIONS, { ...user(), prediction: { type: 'content' } }, { output: true }],
    ['a search', CHAT_COMPLETIONS, { ...user(), web_search_options: {} }, { tools: true }],
    ['an image by id', RESPONSES, item({ type: 'input_image', file_id: 'file_1' }), { input: true }],
    ['a file by URL', RESPONSES, item({ type: 'input_file', file_url: URL }), { input: true }],
    ['the response before', RESPONSES, { input: 'x', previous_response_id: 'resp_1' }, { input: true }],
    ['a conversation', RESPONSES, { input: 'x', conversation: 'conv_1' }, { input: true }],
    ['a stored prompt', RESPONSES, { input: 'x', prompt: { id: 'pmpt_1' } }, { input: true }],
    ['a stored item', RESPONSES, { input: [{ type: 'item_reference', id: 'msg_1' }] }, { input: true }],
    ['stored files', RESPONSES, { input: 'x', tools: [{ type: 'file_search' }] }, { tools: true }],
    [
      'a hosted shell',
      RESPONSES,
      { input: 'x', tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
      { tools: true },
    ],
    [
      'a tool among the items',
      RESPONSES,
      { input: [{ type: 'additional_tools', tools: [{ type: 'mcp' }] }] },
      { tools: true },
    ],
    [
      'a document by URL',
      MESSAGES,
      user({ type: 'document', source: { type: 'url', url: URL } }),
      { input: true },
    ],
    ['a file of a message', MESSAGES, user({ type: 'container_upload', file_id: 'file_1' }), { input: true }],
    [
      'a tool of a message',
      MESSAGES,
      { ...user(), tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] },
      { tools: true },
    ],
    [
      'a cached prompt',
      GENERATE_CONTENT,
      { contents: [], cachedContent: 'cachedContents/1' },
      { input: true },
    ],
    [
      'a file by URI',
      GENERATE_CONTENT,
      { contents: [{ parts: [{ fileData: { fileUri: URL } }] }] },
      { input: true },
    ],
    [
      'a search of Gemini',
      GENERATE_CONTENT,
      { contents: [], tools: [{ google_search: {} }] },
      { tools: true },
    ],
    [
      'a document of Converse',
      CONVERSE,
      {
        messages: [{ role: 'user', content: [{ document: { source: { s3Location: { uri: 's3://a' } } } }] }],
      },
      { input: true },
    ],
  ] as const)('%s', (_, operation, fields, expected) => {
    const found = costs(operation, fields);
    expect(found).toEqual({ ...NONE, ...expected });
  });

  it('is nothing of a text, on every route', () => {
    for (const operation of OPERATIONS) {
      const fields = operation === RESPONSES ? { input: 'hi' } : {};
      expect([operation.path, costs(operation, fields)]).toEqual([operation.path, NONE]);
    }
  });
});

it('a member is found by its decoded name, with a value that counts', () => {
  const has = (text: string) => hasMember(Buffer.from(text), ['ttl'], (value) => value !== '5m');
  expect(has('{"a":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}]}')).toBe(true);
  expect(has('{"a":{"\\u0074tl" : "12h"}}')).toBe(true);
  expect(has('{"a":{"ttl":3600}}')).toBe(true);
  expect(has('{"a":{"ttl":"\\u0035m"}}')).toBe(false);
  expect(has('{"a":"ttl","b":["ttl","1h"],"c":"\\"ttl\\":\\"1h\\""}')).toBe(false);
});
