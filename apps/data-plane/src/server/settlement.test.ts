import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { Outcome } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { type InferenceApp, refusal, startInferenceApp } from '../../test/inferenceApp.ts';
import { listen } from '../../test/servers.ts';
import { useVendor } from '../../test/useProxy.ts';

const vendor = useVendor();
let app: InferenceApp;
beforeEach(async () => {
  app = await startInferenceApp(vendor.url);
});

describe('settlement', () => {
  it('prices what the vendor says, cached input apart', async () => {
    const headers = {
      'x-mock-input-tokens': '100',
      'x-mock-cached-tokens': '40',
      'x-mock-output-tokens': '7',
    };
    await (await app.ask({}, headers)).text();
    // 60 × 1 + 40 × 0.1 + 7 × 2 = 78 micro-USD
    expect(app.events).toMatchObject([
      {
        costNanoUsd: 78_000n,
        usage: { input: 60, cacheRead: 40, output: 7 },
        estimated: false,
        outcome: Outcome.SUCCESS,
        priceVersion: 3,
      },
    ]);
  });

  it('passes a refusal of the vendor on as it is, and charges nothing', async () => {
    const response = await app.ask({}, { 'x-mock-status': '429' });
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } });
    expect(app.events).toMatchObject([{ costNanoUsd: 0n, outcome: Outcome.UPSTREAM_ERROR, httpStatus: 429 }]);
  });

  it('charges what was reserved where the vendor broke off before anything came', async () => {
    for (const how of ['before', 'headers']) {
      const size = { max_tokens: 10, n: 2, filler: 'x'.repeat(700) };
      await app.ask(size, { 'x-mock-reset': how });
      const input = Number(app.events.at(-1)?.usage?.input);
      expect(app.events.at(-1)).toMatchObject({
        estimated: true,
        outcome: Outcome.INTERRUPTED,
        usage: { output: 20 },
        costNanoUsd: BigInt(input) * 1_000n + 20n * 2_000n,
      });
      expect(input).toBeGreaterThan(200);
    }
  });

  it('numbers the attempts of a request, and leaves none of them open', async () => {
    await app.ask();
    await app.ask({}, { 'x-mock-status': '500' });
    expect(app.events).toMatchObject([
      { attempt: 1, modelAttempt: 1 },
      { attempt: 1, modelAttempt: 1, costNanoUsd: 0n },
    ]);
    expect(app.usage.openAttempts).toBe(0);
  });

  it('charges no less than was reserved where the vendor does not say, or says what cannot be', async () => {
    const reserve = { estimated: true, usage: { output: 1_024 }, outcome: Outcome.SUCCESS };
    await (await app.ask({ stream: true }, { 'x-mock-no-usage': 'true', 'x-mock-chunks': '9' })).text();
    await (await app.ask({}, { 'x-mock-zero-usage': 'true' })).text();
    expect(app.events).toMatchObject([reserve, reserve]);
    expect(app.events[0]?.costNanoUsd).toBeGreaterThan(2_048_000n);
    // What was counted counts, if it is more.
    const long = { 'x-mock-no-usage': 'true', 'x-mock-output-tokens': '3000' };
    await (await app.ask({ max_tokens: 4_000 }, long)).text();
    expect(app.events[2]?.usage?.output).toBeGreaterThan(2_000);
  });

  it('tells a caller in the stream that the vendor broke off, and settles', async () => {
    const text = await (
      await app.ask({ stream: true }, { 'x-mock-reset': 'mid', 'x-mock-chunks': '20' })
    ).text();
    expect(text).toMatch(/data: \{"error":\{"message":"The vendor mock closed the connection early/);
    expect(text).not.toContain('[DONE]');
    expect(app.events).toMatchObject([{ outcome: Outcome.INTERRUPTED, estimated: true }]);
  });

  it('answers 502 or 504 where the vendor did not answer, and settles', async () => {
    expect(await refusal(app.ask({}, { 'x-mock-reset': 'before' }))).toMatchObject({
      status: 502,
      code: 'upstream_error',
    });
    expect(await refusal(app.ask({}, { 'x-mock-delay-ms': '5000' }))).toMatchObject({
      status: 504,
      code: 'upstream_timeout',
    });
    expect(app.events.map((event) => [event.outcome, event.estimated])).toEqual([
      [Outcome.INTERRUPTED, true],
      [Outcome.INTERRUPTED, true],
    ]);
    app = await startInferenceApp('http://127.0.0.1:1/v1');
    expect(await refusal(app.ask())).toMatchObject({ status: 502, code: 'upstream_error' });
    expect(app.events).toMatchObject([{ outcome: Outcome.UPSTREAM_UNREACHABLE, costNanoUsd: 0n }]);
  });

  it("learns the vendor's own figure when the caller leaves in the midst of a stream", async () => {
    const leaving = new AbortController();
    const headers = { 'x-mock-chunks': '20', 'x-mock-chunk-delay-ms': '5', 'x-mock-output-tokens': '50' };
    const response = await app.ask({ stream: true }, headers, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
    expect(app.events).toMatchObject([
      { outcome: Outcome.CLIENT_GONE, estimated: false, usage: { output: 50 } },
    ]);
    expect(vendor.bill[0]?.outputTokens).toBe(50);
  });

  it.each(['application/json', 'text/event-stream'])(
    'passes an answer of 40 MiB on that says it is %s, byte for byte, and reads its usage',
    async (type) => {
      const filler = randomBytes(20 * 1024 * 1024).toString('hex');
      const answer = JSON.stringify({
        id: 'c-1',
        filler,
        usage: { prompt_tokens: 5, completion_tokens: 38_000, total_tokens: 38_005 },
      });
      app = await startInferenceApp(
        await listen((_request, response) => response.writeHead(200, { 'content-type': type }).end(answer)),
      );
      const response = await app.ask();
      expect((await response.text()) === answer).toBe(true);
      expect(response.headers.has('x-svc-cost-micro-usd')).toBe(false);
      expect(app.events).toMatchObject([{ usage: { input: 5, output: 38_000 }, responseId: 'c-1' }]);
    },
  );

  it('reads the usage of a large answer that is compressed', async () => {
    const answer = `{"filler":"${randomBytes(3_000_000).toString('hex')}","usage":{"prompt_tokens":5,"completion_tokens":9}}`;
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    app = await startInferenceApp(
      await listen((_request, response) => response.writeHead(200, headers).end(gzipSync(answer))),
    );
    const response = await app.ask({}, { 'accept-encoding': 'gzip' });
    expect((await response.text()) === answer).toBe(true);
    expect(app.events).toMatchObject([{ usage: { input: 5, output: 9 }, estimated: false }]);
  });
});
