import { create } from '@bufbuild/protobuf';
import { ConnectorSchema } from '@weighbridge/contracts';
import { dearestPrices } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { readGeminiRequest } from '../formats/geminiRequest.ts';
import { GENERATE_CONTENT } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { GENERATE_CONTENT_FIELDS, snakeCase } from '../formats/requestFields/gemini.ts';
import { noFacts } from '../formats/responseFormat.ts';
import { mayHideUsage } from './hiddenUsage.ts';

const price = { input: 1n, output: 1n, cacheRead: 1n, cacheWrite: 1n, cacheWrite1h: 1n, version: 1 };
const model = {
  id: 'gemini/flash',
  provider: 'gemini',
  upstreamName: 'flash',
  otherNames: [],
  own: true,
  price: { ...price, tiers: [], variants: [], toolPrices: {} },
  dearest: dearestPrices([]),
  free: false,
  maxOutputTokens: 500,
  contextWindow: 8_000,
  score: undefined,
  capabilities: ['tools'],
};
const connector = {
  ...create(ConnectorSchema, { id: 'con_1', provider: 'gemini' }),
  serves: () => true,
  negotiated: new Map(),
};

/** Whether a response to this request of Gemini's dialect may hide usage; its model does not reason. */
function isHidden(request: object, isInputKnown = true): boolean {
  const body = new RequestBody([Buffer.from(JSON.stringify(request))]);
  const target = { operation: GENERATE_CONTENT, model: 'flash', stream: true, isArray: false };
  const generation = readGeminiRequest(target, body);
  const prepared = { connector, body, modelRequest: { model, connector, generation } };
  return mayHideUsage(prepared, noFacts(), isInputKnown);
}

const contents = [{ parts: [{ text: 'hi' }] }];

describe("a response in Gemini's dialect", () => {
  it('hides no usage if it has text only', () => {
    expect(isHidden({ contents })).toBe(false);
    expect(isHidden({ contents, tools: [{ functionDeclarations: [{ name: 'weigh' }] }] }, false)).toBe(false);
  });

  it('may hide usage of every tool that the vendor runs', () => {
    const { value } = GENERATE_CONTENT_FIELDS.tools ?? {};
    const item = value?.kind === 'list' ? value.item.value : undefined;
    const tools = item?.kind === 'object' ? Object.entries(item.fields) : [];
    const names = tools.flatMap(([name, { tool }]) => (tool ? [name] : []));
    expect(names).toEqual(expect.arrayContaining(['googleSearch', 'google_search', 'url_context']));
    for (const name of names)
      expect([name, isHidden({ contents, tools: [{ [name]: {} }] })]).toEqual([name, true]);
  });

  it('may hide media, in what it returns and in a prompt whose usage is not known', () => {
    for (const name of ['responseModalities', 'response_modalities']) {
      expect(isHidden({ contents, generationConfig: { [name]: ['IMAGE'] } })).toBe(true);
    }
    for (const name of ['inlineData', 'fileData']) {
      for (const spelled of [name, snakeCase(name)]) {
        const request = { contents: [{ parts: [{ [spelled]: {} }] }] };
        expect([isHidden(request, false), isHidden(request, true)]).toEqual([true, false]);
      }
    }
  });
});
