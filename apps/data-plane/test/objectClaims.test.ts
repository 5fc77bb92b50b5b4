import type { RequestListener } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ALICE, BOB, settled, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest } from './useProxy.ts';

type Json = Record<string, unknown>;

/** A vendor that numbers what it makes, and repeats what a request names. */
async function startCounting() {
  let made = 0;
  const handler: RequestListener = (request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' });
      if (request.url?.endsWith('/input_items')) {
        return void response.end(JSON.stringify({ object: 'list', data: [{ id: 'msg_3' }] }));
      }
      const { conversation = null } = text === '' ? {} : (JSON.parse(text) as Json);
      made++;
      const output = [{ type: 'message', id: `msg_${made}`, role: 'assistant', content: [] }];
      const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
      const shown = conversation && { id: conversation };
      const body = { id: `resp_${made}`, status: 'completed', conversation: shown, output, usage };
      response.end(JSON.stringify(body));
    });
  };
  return await startProxyForTest({ vendorUrl: await startVendor(handler) });
}

async function ask(proxy: TestProxy, key: string, fields: object) {
  const response = await fetch(`${proxy.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'mock/echo', input: 'hi', ...fields }),
  });
  return { status: response.status, json: (await response.json()) as Json };
}

describe('an object that an answer only repeats', () => {
  it('is claimed by the principal that used it first', async () => {
    const proxy = await startCounting();
    expect((await ask(proxy, ALICE, { conversation: 'conv_outside' })).status).toBe(200);
    expect((await ask(proxy, BOB, { conversation: 'conv_outside' })).status).toBe(404);
    expect((await ask(proxy, ALICE, { conversation: 'conv_outside' })).status).toBe(200);
  });

  it('is no claim on what a vendor makes later under its id', async () => {
    const proxy = await startCounting();
    // Alice guesses the id of the response after the next one, and goes on with it.
    for (let at = 0; at < 2; at++) await ask(proxy, ALICE, { conversation: 'resp_3' });
    const { json } = await ask(proxy, BOB, {});
    expect(json.id).toBe('resp_3');
    expect((await ask(proxy, ALICE, { previous_response_id: 'resp_3' })).status).toBe(404);
    expect((await ask(proxy, ALICE, { conversation: 'resp_3' })).status).toBe(404);
    expect((await ask(proxy, BOB, { previous_response_id: 'resp_3' })).status).toBe(200);
  });

  it('is no claim either if it came with its content', async () => {
    const proxy = await startCounting();
    const guessed = { type: 'message', id: 'msg_2', role: 'user', content: 'hi' };
    expect((await ask(proxy, ALICE, { input: [guessed], conversation: 'msg_2' })).status).toBe(200);
    const { json } = await ask(proxy, BOB, {});
    expect(json.output).toMatchObject([{ id: 'msg_2' }]);
    expect((await ask(proxy, BOB, { input: [guessed] })).status).toBe(200);
    expect((await ask(proxy, ALICE, { input: [guessed] })).status).toBe(404);
  });

  it('is no claim either if it is read back from the input', async () => {
    const proxy = await startCounting();
    const { json } = await ask(proxy, ALICE, { input: [{ id: 'msg_3', role: 'user', content: 'hi' }] });
    const url = `${proxy.url}/v1/responses/${json.id}/input_items`;
    expect((await fetch(url, { headers: { authorization: `Bearer ${ALICE}` } })).status).toBe(200);
    const named = { input: [{ type: 'item_reference', id: 'msg_3' }] };
    expect((await ask(proxy, ALICE, named)).status).toBe(200);
    // That response is the one that makes the item.
    const { json: made } = await ask(proxy, BOB, {});
    expect(made.output).toMatchObject([{ id: 'msg_3' }]);
    expect((await ask(proxy, ALICE, named)).status).toBe(404);
    expect((await ask(proxy, BOB, named)).status).toBe(200);
  });
});

describe('an answer that this service can not read', () => {
  const answer = { id: 'resp_1', status: 'completed', output: [{ type: 'message', id: 'msg_1' }] };
  const start = (encoding: string, body: Buffer, type = 'application/json', status = 200) =>
    startVendor((request, response) => {
      request.resume();
      response.writeHead(status, { 'content-type': type, 'content-encoding': encoding }).end(body);
    }).then((vendorUrl) => startProxyForTest({ vendorUrl }));
  const plain = Buffer.from(JSON.stringify(answer));
  const damaged = gzipSync(Buffer.from(JSON.stringify({ ...answer, filler: 'x'.repeat(9_000) })));
  damaged.fill(7, 30, 45);
  const bodies = { zstd: plain, gzip: damaged };

  it.each<[keyof typeof bodies, string, number, object]>([
    ['zstd', 'application/json', 200, {}],
    ['zstd', 'application/json', 200, { store: false }],
    ['zstd', 'text/event-stream', 200, { stream: true }],
    ['zstd', 'application/json', 400, {}],
    ['gzip', 'application/json', 200, {}],
    ['gzip', 'application/json', 200, { store: false }],
  ])('in %s, as %s, %i to %j, is not passed on', async (encoding, type, status, fields) => {
    const proxy = await start(encoding, bodies[encoding], type, status);
    const given = await ask(proxy, ALICE, fields);
    expect([given.status, given.json.error]).toEqual([
      502,
      expect.objectContaining({ code: 'upstream_error' }),
    ]);
    const [event] = settled(proxy.events);
    expect(event).toMatchObject({ estimated: status < 400 });
    if (status < 400) expect(event?.cost).toBeGreaterThan(0n);
    else expect(event?.cost).toBe(0n);
    expect(proxy.memory.usedBytes).toBe(0);
  });

  it.each(['/v1/chat/completions', '/v1/messages'])('on %s is not passed on in zstd', async (path) => {
    const proxy = await start('zstd', plain);
    const response = await fetch(proxy.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'mock/echo',
        max_tokens: 9,
        messages: [{ role: 'user', content: 'hi' }],
      }),
    });
    expect(response.status).toBe(502);
    expect(await response.text()).toContain('upstream_error');
  });
});

describe('a large document', () => {
  it.each([
    [{}, ''],
    [{ store: false }, '~'],
  ])('has each item recorded before the client learns of it, with %j', async (fields, sign) => {
    const items = ['msg_1', 'msg_2', 'msg_3'];
    const recorded = items.map((id) => sign + id);
    const filler = 'x'.repeat(2 * 1024 * 1024);
    const seen: string[][] = [];
    const vendorUrl = await startVendor(async (request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"id":"resp_1","status":"completed","output":[');
      for (const [at, id] of items.entries()) {
        const open = `${at > 0 ? ',' : ''}{"type":"message","id":"${id}","content":[{"type":"output_text","text":"`;
        response.write(open + filler);
        // The item has not ended.
        const claimed = () => proxy.recorded.flatMap(({ objectIds }) => objectIds);
        await expect.poll(() => claimed().length).toBe(at + 1);
        seen.push(claimed());
        response.write('"}]}');
      }
      response.end('],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}');
    });
    const proxy = await startProxyForTest({ vendorUrl });
    const { status, json } = await ask(proxy, ALICE, fields);
    expect([status, (json.output as Json[]).map(({ id }) => id)]).toEqual([200, items]);
    expect(seen).toEqual([recorded.slice(0, 1), recorded.slice(0, 2), recorded]);
    expect(new Set(proxy.recorded.map(({ responseId }) => responseId))).toEqual(new Set(['resp_1']));
  });
});

describe('the audio of a chat completion', () => {
  it.each([false, true])("is its maker's, streamed: %s", async (stream) => {
    const proxy = await startProxyForTest({ vendorUrl: await startVendorOfAudio() });
    const chat = (key: string, fields: object) =>
      fetch(`${proxy.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'hi' }], ...fields }),
      });
    const audio = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } };
    await (await chat(ALICE, { ...audio, stream })).text();
    expect(proxy.recorded).toMatchObject([{ objectIds: ['audio_1'], connectorId: 'con_0' }]);
    const follow = { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] };
    expect((await chat(BOB, follow)).status).toBe(404);
    expect((await chat(ALICE, follow)).status).toBe(200);
  });
});

function startVendorOfAudio(): Promise<string> {
  return startVendor((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const message = { role: 'assistant', content: null, audio: { id: 'audio_1', data: 'AAAA' } };
      const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
      const isStream = (JSON.parse(text) as Json).stream === true;
      response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
      if (!isStream) {
        const choices = [{ index: 0, message, finish_reason: 'stop' }];
        return void response.end(JSON.stringify({ id: 'chatcmpl-1', choices, usage }));
      }
      const choices = [{ index: 0, delta: message, finish_reason: null }];
      response.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices })}\n\n`);
      response.end(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [], usage })}\n\ndata: [DONE]\n\n`);
    });
  });
}
