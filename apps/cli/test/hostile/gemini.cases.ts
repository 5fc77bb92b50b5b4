import { expect } from 'vitest';
import { expectCovered, expectExact, type HostileCase, hard, PLENTY } from './hostileCase.ts';
import type { Answer, Scene, Tenant } from './scene.ts';

type Json = Record<string, unknown>;

const AT = '/v1beta/models/gemini/plain';
const GENERATE = `${AT}:generateContent`;
const STREAMS = [GENERATE, `${AT}:streamGenerateContent?alt=sse`, `${AT}:streamGenerateContent`];
const content = (fields: Json = {}) => ({ contents: [{ parts: [{ text: 'weigh' }] }], ...fields });

/** Our code of a refusal in Google's shape. */
function codeOf({ json }: Answer): unknown {
  const { details } = (json.error ?? {}) as { details?: { metadata?: { code?: string } }[] };
  return details?.[0]?.metadata?.code;
}

function sentBy({ vendors }: Scene, { mark }: Tenant) {
  return vendors.flatMap(({ requests }) => requests.filter(({ headers }) => headers['x-mark'] === mark));
}

/** Gemini's dialect, whose requests say in the path, the query and two spellings what others say in one field. */
export const GEMINI: readonly HostileCase[] = [
  {
    row: 'a key in the query',
    title: 'opens inference alone, is in no log, and reaches no vendor',
    async run(scene) {
      const mine = await scene.tenant();
      const bare = { 'x-mark': mine.mark, 'content-type': 'application/json' };
      const { inferenceUrl, managementUrl } = scene.product;
      const post = (path: string, headers: Json = {}) =>
        fetch(`${inferenceUrl}${path}`, {
          method: 'POST',
          body: JSON.stringify(content()),
          headers: { ...bare, ...headers } as Record<string, string>,
        });
      const statuses: number[] = [];
      for (const query of [`key=${mine.key}`, `%6bey=${mine.key}`, `alt=json&key=${mine.key}&key=other`]) {
        statuses.push((await post(`${GENERATE}?${query}`)).status);
      }
      const header = { 'x-goog-api-key': mine.key };
      statuses.push((await post(`${GENERATE}?access_token=ya29.stolen&KEY=AIzaOther`, header)).status);
      expect(statuses).toEqual([200, 200, 200, 200]);
      const sent = sentBy(scene, mine);
      expect(sent.map(({ path }) => path)).toEqual(sent.map(() => '/v1beta/models/plain:generateContent'));
      expect(JSON.stringify(sent.map(({ rawHeaders }) => rawHeaders))).not.toMatch(
        new RegExp(`${mine.key}|ya29|AIza`),
      );
      // A key in the query is read on Gemini's routes only.
      const others = [
        await fetch(`${inferenceUrl}/v1/chat/completions?key=${mine.key}`, { method: 'POST', body: '{}' }),
        await fetch(`${managementUrl}/api/v1/keys?key=${mine.key}`),
        await fetch(`${managementUrl}/api/v1/keys`, { headers: header }),
        await fetch(`${managementUrl}/api/v1/keys`, { headers: { 'api-key': mine.key } }),
      ];
      expect(others.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
      expect(scene.product.output()).not.toContain(mine.key);
    },
  },
  {
    row: 'usage hidden by the query',
    title: 'is refused: parameters that reshape an answer do not go out',
    async run(scene) {
      const mine = await scene.tenant();
      for (const query of [
        'fields=candidates',
        '%24fields=candidates',
        'alt=media',
        'callback=f',
        '$alt=proto',
      ]) {
        const answer = await mine.ask(`${GENERATE}?${query}`, content());
        expect([answer.status, codeOf(answer)]).toEqual([400, 'unsupported_parameter']);
      }
      await mine.ask(`${GENERATE}?prettyPrint=false&$.xgafv=2`, content());
      expect(sentBy(scene, mine).map(({ path }) => path)).toEqual(['/v1beta/models/plain:generateContent']);
    },
  },
  {
    row: "Gemini's usage",
    title: 'is charged in every dimension, whole, streamed and as an array',
    async run({ tenant }) {
      const tried = await tenant();
      const scripts: Record<string, string>[] = [
        {},
        { 'input-tokens': '1000', 'cached-tokens': '300', 'reasoning-tokens': '40' },
        { 'input-tokens': '200001' },
        { 'input-tokens': '500', 'input-audio-tokens': '100', 'input-image-tokens': '50' },
        { 'output-audio-tokens': '30', 'output-image-tokens': '20' },
        { 'served-tier': 'priority' },
        { 'tool-uses': 'google_search=2' },
      ];
      const body = content({ tools: [{ googleSearch: {} }], generationConfig: { candidateCount: 2 } });
      for (const path of STREAMS) {
        for (const script of scripts) expect((await tried.ask(path, body, { script })).status).toBe(200);
      }
      const flex = await tried.ask(GENERATE, content({ serviceTier: 'flex' }));
      expect(flex.status).toBe(200);
      await expectExact(tried, STREAMS.length * scripts.length + 1);
    },
  },
  {
    row: "Gemini's usage",
    title: 'of a stream that breaks off or is left is covered',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { chunks: '8', 'reasoning-tokens': '100', 'chunk-delay-ms': '5' };
      for (const path of STREAMS.slice(1)) {
        await tried.ask(path, content(), { script: { ...script, reset: 'mid' } }).catch(() => undefined);
        await tried.leave(path, content(), { script, afterBytes: 300 });
      }
      await expectCovered(tried, 4);
    },
  },
  {
    row: 'hard limits and two spellings',
    title: 'an output limit holds whichever way it is spelled, and never both',
    async run({ tenant }) {
      const tried = await tenant(hard(3_000));
      const greedy = { script: { 'output-tokens': '4000' } };
      const configs: Json[] = [
        {},
        { generationConfig: { maxOutputTokens: 100_000, candidateCount: 8 } },
        { generation_config: { max_output_tokens: 100_000 } },
        { generationConfig: { candidate_count: 8 } },
        { generationConfig: { maxOutputTokens: 1, max_output_tokens: 100_000 } },
        { generationConfig: { maxOutputTokens: 1 }, generation_config: { maxOutputTokens: 100_000 } },
        { generationConfig: { maxOutputTokens: '100000' } },
        { generationConfig: { MaxOutputTokens: 100_000 } },
        { generationConfig: { responseModalities: ['IMAGE'] } },
      ];
      const codes: unknown[] = [];
      for (const config of configs) codes.push(codeOf(await tried.ask(GENERATE, content(config), greedy)));
      expect(codes.slice(4)).toEqual([
        'duplicate_field',
        'duplicate_field',
        ...Array(3).fill('not_allowed_in_hard_mode'),
      ]);
      expect(tried.billed()).toBeGreaterThan(0);
      expect(tried.billed()).toBeLessThanOrEqual(3_000);
    },
  },
  {
    row: 'tools that Google runs',
    title: 'are removed under a hard budget, in both spellings, from objects with other tools too',
    async run(scene) {
      const tried = await scene.tenant(hard(PLENTY));
      const declared = { functionDeclarations: [{ name: 'weigh' }] };
      const tools = [
        { googleSearch: {}, ...declared },
        { google_search: {} },
        { codeExecution: {} },
        { url_context: {} },
      ];
      const script = { 'tool-uses': 'google_search=3' };
      const answer = await tried.ask(GENERATE, content({ tools }), { script });
      expect([answer.status, answer.headers.get('x-svc-dropped')]).toEqual([
        200,
        'tools[0].googleSearch google_search, tools[1].google_search google_search, tools[2].codeExecution code_execution, tools[3].url_context url_context',
      ]);
      expect(JSON.parse(String(sentBy(scene, tried)[0]?.body)).tools).toEqual([declared]);
      await expectExact(tried);
    },
  },
  {
    row: 'another model in the body',
    title: 'is refused wherever a body may name one: the path has the price',
    async run(scene) {
      const tried = await scene.tenant({ allowed_models: ['gemini/plain'] });
      const inner = { content: { parts: [{ text: 'weigh' }] } };
      const asks: [string, Json][] = [
        [GENERATE, content({ model: 'models/dear' })],
        [`${AT}:countTokens`, { generateContentRequest: content({ model: 'models/gemini/dear' }) }],
        [`${AT}:countTokens`, { generate_content_request: content({ model: 'dear' }) }],
        [`${AT}:embedContent`, { ...inner, model: 'models/dear' }],
        [`${AT}:batchEmbedContents`, { requests: [inner, { ...inner, model: 'models/dear' }] }],
      ];
      for (const [path, body] of asks) {
        const answer = await tried.ask(path, body);
        expect([answer.status, codeOf(answer)]).toEqual([400, 'model_mismatch']);
      }
      const dear = await tried.ask('/v1beta/models/gemini/dear:generateContent', content());
      expect([dear.status, codeOf(dear)]).toEqual([403, 'model_not_allowed']);
      expect(sentBy(scene, tried)).toEqual([]);
    },
  },
  {
    row: "Google's files and caches",
    title: 'that no one is known to own are 404 where the policy says so, however they are written',
    async run(scene) {
      const strict = await scene.tenant({ foreign_objects: 'own' });
      const google = 'https://generativelanguage.googleapis.com';
      const uris = [
        'files/abc',
        `${google}/v1beta/files/abc`,
        `${google}:443/v1beta/files/abc`,
        `${google}./v1beta/files/abc`,
        `HTTPS://GENERATIVELANGUAGE.GOOGLEAPIS.COM/v1/files/abc`,
        `${google}/v1beta/../v1beta/files/abc`,
        'gs://bucket/abc',
      ];
      const part = (one: Json) => ({ contents: [{ parts: [one] }] });
      const bodies: Json[] = [
        ...uris.map((fileUri) => part({ fileData: { fileUri } })),
        part({ file_data: { file_uri: 'files/abc' } }),
        part({
          functionResponse: { name: 'f', response: {}, parts: [{ fileData: { fileUri: 'files/abc' } }] },
        }),
        content({ cachedContent: 'cachedContents/abc' }),
        content({ cached_content: 'cachedContents/abc' }),
        content({ tools: [{ fileSearch: { fileSearchStoreNames: ['fileSearchStores/abc'] } }] }),
        content({ systemInstruction: { parts: [{ fileData: { fileUri: 'files/abc' } }] } }),
      ];
      for (const body of bodies) {
        const answer = await strict.ask(GENERATE, body);
        expect([answer.status, JSON.stringify(body)]).toEqual([404, JSON.stringify(body)]);
      }
      expect(sentBy(scene, strict)).toEqual([]);
      // A public page belongs to no one. Under any other policy, the vendor is asked.
      const web = part({ fileData: { fileUri: 'https://www.youtube.com/watch?v=weigh' } });
      expect((await strict.ask(GENERATE, web)).status).toBe(200);
      const open = await scene.tenant();
      expect((await open.ask(GENERATE, bodies[0])).status).toBe(200);
    },
  },
];
