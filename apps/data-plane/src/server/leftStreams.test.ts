import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Outcome } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { describe, expect, it, vi } from 'vitest';
import { startInferenceApp } from '../../test/inferenceApp.ts';
import { listen } from '../../test/servers.ts';

const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c-1', choices: [{ delta: { content } }] })}\n\n`;
const usage = { prompt_tokens: 3, completion_tokens: 2_000 };
const LAST = `data: ${JSON.stringify({ id: 'c-1', choices: [], usage })}\n\ndata: [DONE]\n\n`;

/** A vendor whose stream goes on as the test says. */
async function openStream() {
  let stream: ServerResponse | undefined;
  const closed = vi.fn();
  const url = await listen((_request, response) => {
    stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.on('close', () => closed(response.writableFinished));
    response.write(chunk('Hello there'));
  });
  return {
    url,
    closed,
    write: (text: string) => stream?.write(text),
    end: (text: string) => stream?.end(text),
    destroy: () => stream?.destroy(),
  };
}

async function leave(app: Awaited<ReturnType<typeof startInferenceApp>>, fields: object = {}): Promise<void> {
  const leaving = new AbortController();
  const response = await app.ask({ stream: true, ...fields }, {}, { signal: leaving.signal });
  await response.body?.getReader().read();
  leaving.abort();
}

it('cancels a stream at once where that ends its cost, and charges what was seen', async () => {
  const vendor = await openStream();
  const app = await startInferenceApp(vendor.url, undefined, 'openai');
  await leave(app);
  // The time-outs of a stream that is read on are an hour, so that it is closed at all shows that it was not read on.
  await eventually(() => expect(vendor.closed).toHaveBeenCalledWith(false), { intervalMs: 5 });
  await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
  expect(app.events).toMatchObject([{ outcome: Outcome.CLIENT_GONE, estimated: true, usage: { output: 2 } }]);
});

/** A vendor that takes its time, and then answers as the test says, if at all. */
async function openThinker(answer?: (response: ServerResponse) => void) {
  const asked = vi.fn();
  const closed = vi.fn();
  let answerNow = () => {};
  const url = await listen((request, response) => {
    response.on('close', () => closed(response.writableFinished));
    request.resume().on('end', () => {
      answerNow = () => answer?.(response);
      asked();
    });
  });
  return { url, asked, closed, answer: () => answerNow() };
}

/** Leaves once the vendor has the request. */
async function leaveBefore(
  app: Awaited<ReturnType<typeof startInferenceApp>>,
  vendor: Awaited<ReturnType<typeof openThinker>>,
  fields: object,
): Promise<void> {
  const leaving = new AbortController();
  const sent = app.ask(fields, {}, { signal: leaving.signal }).catch(() => undefined);
  await eventually(() => expect(vendor.asked).toHaveBeenCalled(), { intervalMs: 2 });
  leaving.abort();
  await sent;
}

describe('a client that leaves before the first byte', () => {
  it('has its stream cancelled at once, and pays what was reserved', async () => {
    const vendor = await openThinker();
    const app = await startInferenceApp(vendor.url, undefined, 'openai');
    const closing = new Promise((resolve) => vendor.closed.mockImplementationOnce(resolve));
    await leaveBefore(app, vendor, { stream: true, max_tokens: 70 });
    expect(await closing).toBe(false);
    await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
    expect(app.events).toMatchObject([
      { outcome: Outcome.CLIENT_GONE, estimated: true, usage: { output: 70 } },
    ]);
    expect(app.events[0]?.usage?.input).toBeGreaterThan(0);
  });

  it('has its stream read on where the vendor bills it to its end', async () => {
    const vendor = await openThinker((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(LAST);
    });
    const app = await startInferenceApp(vendor.url);
    await leaveBefore(app, vendor, { stream: true, max_tokens: 70 });
    await sleep(100);
    expect(vendor.closed).not.toHaveBeenCalled();
    vendor.answer();
    await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
    expect(app.events).toMatchObject([
      { outcome: Outcome.CLIENT_GONE, estimated: false, usage: { input: 3, output: 2_000 } },
    ]);
  });

  it('has its document read to the end, which any vendor bills', async () => {
    const vendor = await openThinker((response) => {
      const body = { id: 'c-1', choices: [{ message: { content: 'Hello' } }], usage };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    const app = await startInferenceApp(vendor.url, undefined, 'openai');
    await leaveBefore(app, vendor, {});
    await sleep(100);
    expect(vendor.closed).not.toHaveBeenCalled();
    vendor.answer();
    await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
    expect(app.events).toMatchObject([
      { outcome: Outcome.CLIENT_GONE, estimated: false, usage: { input: 3, output: 2_000 } },
    ]);
  });
});

it('charges at least the reservation where reasoning may be hidden in it', async () => {
  const vendor = await openStream();
  const app = await startInferenceApp(vendor.url, undefined, 'openai');
  await leave(app, { reasoning_effort: 'high', max_tokens: 700 });
  await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
  expect(app.events).toMatchObject([
    { outcome: Outcome.CLIENT_GONE, estimated: true, usage: { output: 700 } },
  ]);
});

it('reads on where the vendor bills a stream to its end', async () => {
  const vendor = await openStream();
  const app = await startInferenceApp(vendor.url);
  await leave(app);
  // Long enough for the proxy to see that its client left.
  for (let i = 0; i < 20; i++) {
    vendor.write(chunk('more'));
    await sleep(10);
  }
  expect(vendor.closed).not.toHaveBeenCalled();
  vendor.end(LAST);
  await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
  expect(app.events).toMatchObject([
    { outcome: Outcome.CLIENT_GONE, estimated: false, usage: { input: 3, output: 2_000 } },
  ]);
});

it('reads no more than the request can cost, and charges at least the reservation', async () => {
  const vendor = await openStream();
  const app = await startInferenceApp(vendor.url);
  await leave(app, { max_tokens: 9 });
  const filler = chunk('x'.repeat(100_000));
  await eventually(
    () => {
      for (let i = 0; i < 10; i++) vendor.write(filler);
      expect(vendor.closed).toHaveBeenCalledWith(false);
    },
    { intervalMs: 20 },
  );
  await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
  expect(app.events).toMatchObject([{ outcome: Outcome.CLIENT_GONE, estimated: true }]);
  expect(app.events[0]?.usage?.output).toBeGreaterThan(9);
});

it.each(['ends at once', 'ends later', 'breaks off after its last event'])(
  'is served if the client closes at the last event of a stream that %s',
  async (end) => {
    const vendor = await openStream();
    const app = await startInferenceApp(vendor.url, undefined, 'openai');
    const leaving = new AbortController();
    const response = await app.ask({ stream: true }, {}, { signal: leaving.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (end === 'ends at once') vendor.end(LAST);
    else vendor.write(LAST);
    for (let text = ''; !text.includes('[DONE]'); ) text += (await reader?.read())?.value ?? '';
    leaving.abort();
    await sleep(50);
    if (end === 'ends later') vendor.end('');
    else if (end !== 'ends at once') vendor.destroy();
    await eventually(() => expect(app.events).toHaveLength(1), { intervalMs: 5 });
    expect(app.events).toMatchObject([
      { outcome: Outcome.SUCCESS, estimated: false, usage: { input: 3, output: 2_000 } },
    ]);
  },
);
